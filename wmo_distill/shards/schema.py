"""The columns on disk, schema version 1. One row an episode; every part has this very schema."""

import pyarrow as pa

SCHEMA_VERSION = 1
VERSION_KEY = b"wmo_distill.schema_version"


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


SPAN = pa.struct(
    [
        _required("segment", pa.int32()),
        _required("call_index", pa.int32()),
        _required("prefix_len", pa.int32()),
        _required("prompt_suffix", pa.list_(pa.int32())),
        pa.field("sampled_token_ids", pa.list_(pa.int32())),
        pa.field("sampled_logprobs", pa.list_(pa.float64())),
        pa.field("finish_reason", pa.string()),
        pa.field("extra", pa.string()),
    ]
)
TESTS = pa.struct([pa.field(name, pa.int32()) for name in ("passed", "resolved", "unresolved")])
REWARD = pa.struct([pa.field("name", pa.string()), pa.field("value", pa.float64())])
TIME = pa.timestamp("us", tz="UTC")

_COLUMNS = [
    # identity
    _required("episode_id", pa.string()),
    pa.field("trial_id", pa.string()),
    _required("trial_name", pa.string()),
    pa.field("step_name", pa.string()),
    pa.field("step_index", pa.int32()),
    pa.field("task_id", pa.string()),
    pa.field("task_checksum", pa.string()),
    pa.field("source", pa.string()),
    pa.field("job", pa.string()),
    pa.field("attempt", pa.int32()),
    _required("group_id", pa.string()),
    pa.field("group_expected", pa.int32()),
    pa.field("regrade_of", pa.string()),
    _required("artifact_dir", pa.string()),
    # who
    pa.field("agent_name", pa.string()),
    pa.field("agent_version", pa.string()),
    pa.field("model_name", pa.string()),
    pa.field("model_provider", pa.string()),
    # sampling
    pa.field("temperature", pa.float64()),
    pa.field("top_p", pa.float64()),
    pa.field("top_k", pa.int32()),
    _required("logprob_mode", pa.string()),
    pa.field("policy_version", pa.string()),
    pa.field("train_step", pa.int64()),
    pa.field("tokenizer", pa.string()),
    _required("declared", pa.list_(pa.string())),
    pa.field("sampling", pa.string()),
    # grade
    pa.field("reward", pa.float64()),
    _required("rewards", pa.list_(REWARD)),
    pa.field("trial_reward", pa.float64()),
    pa.field("passed", pa.bool_()),
    pa.field("reward_valid", pa.bool_()),
    _required("infra_failed", pa.bool_()),
    pa.field("tests", TESTS),
    _required("note", pa.string()),
    # ending
    _required("stop_reason", pa.string()),
    pa.field("reference_stop_reason", pa.string()),
    _required("completion", pa.string()),
    pa.field("exception_type", pa.string()),
    pa.field("n_episodes", pa.int32()),
    pa.field("max_turns", pa.int32()),
    # tokens
    _required("spans", pa.list_(SPAN)),
    _required("segment_kinds", pa.list_(pa.string())),
    _required("span_source", pa.string()),
    # counts
    _required("n_calls", pa.int32()),
    _required("fragments", pa.int32()),
    _required("input_tokens", pa.int64()),
    _required("output_tokens", pa.int64()),
    _required("total_tokens", pa.int64()),
    _required("prompt_tokens", pa.int64()),
    _required("subagent_tokens", pa.int64()),
    pa.field("expansion", pa.float64()),
    # trace
    _required("issues", pa.list_(pa.string())),
    _required("compactions", pa.list_(pa.int32())),
    pa.field("started_at", TIME),
    pa.field("finished_at", TIME),
    pa.field("agent_seconds", pa.float64()),
    pa.field("verifier_seconds", pa.float64()),
    pa.field("setup_seconds", pa.float64()),
    pa.field("cost_usd", pa.float64()),
    pa.field("cached_tokens", pa.int64()),
]

SCHEMA = pa.schema(_COLUMNS, metadata={VERSION_KEY: str(SCHEMA_VERSION).encode()})

LEDGER_SCHEMA = pa.schema(
    [
        _required("path", pa.string()),
        pa.field("trial_id", pa.string()),
        _required("trial_name", pa.string()),
        _required("bytes", pa.int64()),
        _required("mtime_ns", pa.int64()),
        _required("outcome", pa.string()),
        _required("reasons", pa.list_(pa.string())),
        _required("records", pa.int32()),
        pa.field("part", pa.string()),
    ],
    metadata={VERSION_KEY: str(SCHEMA_VERSION).encode()},
)
