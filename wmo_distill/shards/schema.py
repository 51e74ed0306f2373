"""The columns of a part and of the ledger, and where a dataset keeps them."""

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

SCHEMA_VERSION = 2
VERSION_KEY = b"wmo_distill.schema_version"

LEDGER_FILE = "ledger.parquet"
PARTS_DIR = "parts"


class Group(StrEnum):
    """What a column speaks of; it decides where its value lies in a TrialRecord."""

    IDENTITY = "identity"
    WHO = "who"
    SAMPLING = "sampling"
    GRADE = "grade"
    ENDING = "ending"
    TOKENS = "tokens"
    COUNTS = "counts"
    TRACE = "trace"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: pa.DataType
    nullable: bool
    group: Group


TEXT = pa.string()
INT32 = pa.int32()
INT64 = pa.int64()
FLOAT = pa.float64()
BOOL = pa.bool_()
TIME = pa.timestamp("us", tz="UTC")


def _list(of: pa.DataType, nullable: bool = False) -> pa.DataType:
    return pa.list_(pa.field("element", of, nullable=nullable))


def _struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field(name, of, nullable=False) for name, of in fields.items()])


TEXTS = _list(TEXT)
IDS = _list(INT32)
LOGPROBS = _list(FLOAT, nullable=True)
REWARDS = _list(_struct(name=TEXT, value=FLOAT))
# Null as a whole or not at all; polars 1.0 cannot read a required field of a struct that is null.
TESTS = pa.struct([(name, INT32) for name in ("passed", "resolved", "unresolved")])
SPAN = pa.struct(
    [
        pa.field("segment", INT32, nullable=False),
        pa.field("call_index", INT32, nullable=False),
        pa.field("prefix_len", INT32, nullable=False),
        pa.field("prompt_suffix", IDS, nullable=False),
        pa.field("sampled_token_ids", IDS),
        pa.field("sampled_logprobs", LOGPROBS),
        pa.field("finish_reason", TEXT),
        pa.field("extra", TEXT),
    ]
)
SPANS = _list(SPAN)

# A `?` marks a column that may be null, as in the contract.
_DECLARED: dict[Group, dict[str, pa.DataType]] = {
    Group.IDENTITY: {
        "episode_id": TEXT,
        "trial_id?": TEXT,
        "trial_name": TEXT,
        "step_name?": TEXT,
        "step_index?": INT32,
        "task_id?": TEXT,
        "task_checksum?": TEXT,
        "source?": TEXT,
        "job?": TEXT,
        "attempt?": INT32,
        "group_id": TEXT,
        "group_expected?": INT32,
        "regrade_of?": TEXT,
        "artifact_dir": TEXT,
    },
    Group.WHO: {
        "agent_name?": TEXT,
        "agent_version?": TEXT,
        "model_name?": TEXT,
        "model_provider?": TEXT,
    },
    Group.SAMPLING: {
        "temperature?": FLOAT,
        "top_p?": FLOAT,
        "top_k?": INT32,
        "logprob_mode": TEXT,
        "policy_version?": TEXT,
        "train_step?": INT64,
        "tokenizer?": TEXT,
        "declared": TEXTS,
        "sampling?": TEXT,
    },
    Group.GRADE: {
        "reward?": FLOAT,
        "rewards": REWARDS,
        "trial_reward?": FLOAT,
        "trial_reward_valid?": BOOL,
        "passed?": BOOL,
        "reward_valid?": BOOL,
        "infra_failed": BOOL,
        "tests?": TESTS,
        "note": TEXT,
    },
    Group.ENDING: {
        "stop_reason": TEXT,
        "reference_stop_reason?": TEXT,
        "completion": TEXT,
        "exception_type?": TEXT,
        "n_episodes?": INT32,
        "max_turns?": INT32,
    },
    Group.TOKENS: {
        "spans": SPANS,
        "segment_kinds": TEXTS,
        "span_source": TEXT,
        "completeness": TEXT,
    },
    Group.COUNTS: {
        "n_calls": INT32,
        "fragments": INT32,
        "input_tokens": INT64,
        "output_tokens": INT64,
        "total_tokens": INT64,
        "prompt_tokens": INT64,
        "subagent_tokens": INT64,
        "expansion?": FLOAT,
    },
    Group.TRACE: {
        "issues": TEXTS,
        "compactions": _list(INT32),
        "started_at?": TIME,
        "finished_at?": TIME,
        "agent_seconds?": FLOAT,
        "verifier_seconds?": FLOAT,
        "setup_seconds?": FLOAT,
        "cost_usd?": FLOAT,
        "cached_tokens?": INT64,
    },
}

COLUMNS = tuple(
    Column(name.removesuffix("?"), of, name.endswith("?"), group)
    for group, columns in _DECLARED.items()
    for name, of in columns.items()
)

_METADATA = {VERSION_KEY: str(SCHEMA_VERSION).encode()}

SCHEMA = pa.schema(
    [pa.field(column.name, column.type, nullable=column.nullable) for column in COLUMNS],
    metadata=_METADATA,
)

LEDGER_SCHEMA = pa.schema(
    [
        pa.field("path", TEXT, nullable=False),
        pa.field("trial_id", TEXT),
        pa.field("trial_name", TEXT),
        pa.field("bytes", INT64, nullable=False),
        pa.field("mtime_ns", INT64, nullable=False),
        pa.field("outcome", TEXT, nullable=False),
        pa.field("reasons", TEXTS, nullable=False),
        pa.field("records", INT32, nullable=False),
        pa.field("part", TEXT),
    ],
    metadata=_METADATA,
)


class Outcome(StrEnum):
    """What became of a trial found."""

    WRITTEN = "written"
    SKIPPED = "skipped"
