"""The columns of a part and of the ledger, and where a dataset keeps them."""

from dataclasses import replace
from enum import StrEnum

from wmo_distill.issues import Issue
from wmo_distill.records import (
    Completeness,
    Completion,
    LogprobMode,
    SegmentKind,
    SpanSource,
    StopReason,
)
from wmo_distill.shards.columns import (
    BOOL,
    FLOAT,
    IDS,
    INT32,
    INT64,
    LOGPROBS,
    TEXT,
    TEXTS,
    TIME,
    Column,
    column,
    list_of,
    schema_of,
    struct_of,
)

SCHEMA_VERSION = 2
VERSION_KEY = b"wmo_distill.schema_version"

LEDGER_FILE = "ledger.parquet"
PARTS_DIR = "parts"


class Group(StrEnum):
    """What a column is about; it decides where its value is in a TrialRecord."""

    IDENTITY = "identity"
    WHO = "who"
    SAMPLING = "sampling"
    GRADE = "grade"
    ENDING = "ending"
    TOKENS = "tokens"
    COUNTS = "counts"
    TRACE = "trace"


def _group(group: Group, *columns: Column) -> tuple[Column, ...]:
    return tuple(replace(column, group=group) for column in columns)


# In all declarations a `?` marks what may be null.
REWARDS = list_of(struct_of([column("name", TEXT), column("value", FLOAT)]))
# Null as a whole or not at all; polars 1.0 cannot read a required field of a struct that is null.
TESTS = struct_of(column(name, INT32) for name in ("passed?", "resolved?", "unresolved?"))
VERSIONS = list_of(struct_of([column("version", TEXT), column("start", INT32)]))

SPAN_FIELDS = (
    column("segment", INT32,
        "0 is the main chat; later ones are summarizers and subagents, never joined to it"),
    column("call_index", INT32, "recorded position in its segment: a dropped call leaves a gap"),
    column("prefix_len", INT32, "ids shared with (the prompt before + what was sampled then)"),
    column("prompt_suffix", IDS, "the rest of the prompt"),
    column("sampled_token_ids?", IDS, "null: not recorded; empty: nothing was sampled"),
    column("sampled_logprobs?", LOGPROBS,
        "one for each sampled id, an element null where it was not finite; null as a whole "
        "where missing or of another length"),
    column("finish_reason?", TEXT, "as the provider said, where a sink recorded it"),
    column("versions?", VERSIONS,
        "which weights sampled the ids from `start` on, in runs; null: as `policy_version` says"),
    column("sampling?", TEXT, "how this call was sampled, as JSON; null: as the row says"),
    column("used?", BOOL, "false: the agent went on from another answer; null: not recorded"),
    column("extra?", TEXT, "what the provider sent with the tokens, as JSON"),
)  # fmt: skip
SPAN = struct_of(SPAN_FIELDS)
SPANS = list_of(SPAN)

SEGMENT_FIELDS = (
    column("kind", TEXT,
        "`main`; `summarizer`: a compaction chat of the harness; `subagent`: of another agent",
        words=SegmentKind),
    column("agent?", TEXT, "which agent, where the source says"),
    column("model?", TEXT, "which model, where it is another than the row's"),
    column("trainable", BOOL, "false where the source says that it is not to be trained"),
)  # fmt: skip
SEGMENTS = list_of(struct_of(SEGMENT_FIELDS))

SECRET_FIELDS = (
    column("segment", INT32, "the chat"),
    column("call_index", INT32, "the first call whose prompt and completion hold all of it"),
    column("rule", TEXT, "the rules that found it; `credential` where only ours did"),
    column("start", INT32, "its first token in that call's prompt and completion, as one sequence"),
    column("stop", INT32, "the one after its last"),
    column("masked", BOOL, "true: its tokens are in no loss mask (`--on-secret mask`)"),
)
SECRETS = list_of(struct_of(SECRET_FIELDS))

COLUMNS = (
    *_group(
        Group.IDENTITY,
        column("format", TEXT, "whose files the trial was read from, such as `harbor`"),
        column("episode_id", TEXT,
            "unique: the trial's id (`path:` and the path where no result can be read), with "
            "`/step_name` for a step"),
        column("trial_id?", TEXT, "the result's own id"),
        column("trial_name", TEXT,
            "as recorded in the result; where none can be read, the directory's name"),
        column("step_name?", TEXT, "null for a single-step trial"),
        column("step_index?", INT32, "from 0, in recorded order"),
        column("task_id?", TEXT, "the full task name"),
        column("task_checksum?", TEXT, "of the task's files"),
        column("source?", TEXT, "the data set that the task is from"),
        column("job?", TEXT, "the job directory's name; for `harbor serve` the job's id"),
        column("attempt?", INT32,
            "a cell's, or the format's own number; else null here and filled by `scan`"),
        column("group_id", TEXT,
            "what names the rollouts to compare: the id of the job (one id also after a resume "
            "into another directory), source, task and its checksum, agent, model and arguments, "
            "hashed; a trial without a readable result has no checksum and is a group of its own"),
        column("group_expected?", INT32, "attempts that the job planned"),
        column("regrade_of?", TEXT,
            "id of the trial that this one supersedes: whose rollout was copied and graded anew, "
            "or the attempt that `harbor serve` retried"),
        column("artifact_dir", TEXT,
            "POSIX path below the directory that `parent` in manifest.json names"),
    ),
    *_group(
        Group.WHO,
        column("agent_name?", TEXT, "such as `terminus-2`"),
        column("agent_version?", TEXT, "of the agent, not of Harbor"),
        column("model_name?", TEXT, "without its provider"),
        column("model_provider?", TEXT, "such as `hosted_vllm`"),
    ),
    *_group(
        Group.SAMPLING,
        column("temperature?", FLOAT,
            'null where not recorded; where `sampling` holds `"temperature":null` none was sent, '
            "and the server applied its own default"),
        column("top_p?", FLOAT,
            "null where not recorded; where the config sets none, terminus-2 sends none"),
        column("top_k?", INT32,
            "null where not recorded; where the config sets none, terminus-2 sends none"),
        column("logprob_mode", TEXT,
            "`raw`: before temperature and filters; `processed`: after; `unknown`",
            words=LogprobMode),
        column("policy_version?", TEXT, "which weights sampled; null where that varies"),
        column("policy_versions", TEXTS, "all of them, each once, in the order of their use"),
        column("train_step?", INT64, "as declared or sent"),
        column("tokenizer?", TEXT, "a fingerprint"),
        column("declared", TEXTS, "which of the sampling columns come from `--declare`"),
        column("sampling?", TEXT, "every recorded sampling argument, as JSON"),
    ),
    *_group(
        Group.GRADE,
        column("reward?", FLOAT, "the number under `--reward-key` if it is in `--reward-range`"),
        column("rewards", REWARDS, "every numeric reward, as recorded"),
        column("trial_reward?", FLOAT, "of the whole trial, on each step's row"),
        column("trial_reward_valid?", BOOL,
            "whether that counts: false as soon as one step's failure spoils it"),
        column("passed?", BOOL, "`reward == 1.0`, or what `--pass-at` says"),
        column("reward_valid?", BOOL,
            "whether the grade counts; null only where no result can be read"),
        column("infra_failed", BOOL,
            "no rewards are recorded: never run, never graded, or the format records none"),
        column("tests?", TESTS, "from `ctrf.json`; null where no report gave a verdict"),
        column("note", TEXT, "one line on the grade"),
    ),
    *_group(
        Group.ENDING,
        column("stop_reason", TEXT, "why the agent's episode ended, see below", words=StopReason),
        column("reference_stop_reason?", TEXT, "the word of world-model-optimizer 0.2.0's rules"),
        column("completion", TEXT, "`none`, `claimed` (once; terminus-2 asks back) or `confirmed`",
            words=Completion),
        column("exception_type?", TEXT, "as recorded"),
        column("n_episodes?", INT32, "turns, as Harbor counts them"),
        column("max_turns?", INT32, "the cap used"),
    ),
    *_group(
        Group.TOKENS,
        column("spans", SPANS, "one call of the model each:", fields=SPAN_FIELDS),
        column("segments", SEGMENTS, "one chat each, by the number that its spans hold:",
            fields=SEGMENT_FIELDS),
        column("span_source", TEXT,
            "where the tokens are from: `result`, `trajectory`, `sink`, `capture` (another "
            "recorder's file) or `none`", words=SpanSource),
        column("completeness", TEXT,
            "`complete`: the source declares that no call is missing; `incomplete`: a call or its "
            "completion is missing, or there are more calls than turns, or calls from outside the "
            "agent's time; `silent`: nothing says so, which is the most that Harbor's files "
            "can say",
            words=Completeness),
        column("secrets", SECRETS, "what `--on-secret` found in the text of the ids:",
            fields=SECRET_FIELDS),
    ),
    *_group(
        Group.COUNTS,
        column("n_calls", INT32, "calls of segment 0"),
        column("fragments", INT32,
            "runs of calls in which each prompt extends all that came before"),
        column("input_tokens", INT64, "fed in, counted once: total - output"),
        column("output_tokens", INT64, "sampled"),
        column("total_tokens", INT64, "final sequences, summed over fragments"),
        column("prompt_tokens", INT64, "all prompts: what an uncached server prefills"),
        column("subagent_tokens", INT64, "the same total over the other segments"),
        column("expansion?", FLOAT, "total / longest fragment: 1.0 for a clean chat"),
    ),
    *_group(
        Group.TRACE,
        column("issues", TEXTS, "codes, see below", words=Issue),
        column("compactions", IDS, "`call_index` of the first call after each summarization"),
        column("started_at?", TIME, "of the trial; a time without a zone is taken as UTC"),
        column("finished_at?", TIME, "of the trial"),
        column("agent_seconds?", FLOAT, "wall clock of the agent", unit="s"),
        column("verifier_seconds?", FLOAT, "wall clock of the verifier", unit="s"),
        column("setup_seconds?", FLOAT, "environment and agent", unit="s"),
        column("cost_usd?", FLOAT, "as Harbor counts it", unit="USD"),
        column("cached_tokens?", INT64, "prompt tokens that the provider had cached"),
    ),
)  # fmt: skip

SCHEMA = schema_of(COLUMNS, VERSION_KEY, SCHEMA_VERSION)

LEDGER_COLUMNS = (
    column("path", TEXT, "of the trial, relative to the manifest's parent"),
    column("trial_id?", TEXT, "as in its rows"),
    column("trial_name?", TEXT, "as in its rows"),
    column("bytes", INT64, "size of the files that a build may read for it", unit="bytes"),
    column(
        "mtime_ns",
        INT64,
        "newest time of these files, as nanoseconds since 1970; where files hold several "
        "episodes, a digest of this one's records",
    ),
    column("outcome", TEXT, "`written` or `skipped`"),
    column("reasons", TEXTS, "why it was skipped, or what happened to it"),
    column("records", INT32, "its rows"),
    column("part?", TEXT, "the file that holds them"),
)
LEDGER_SCHEMA = schema_of(LEDGER_COLUMNS, VERSION_KEY, SCHEMA_VERSION)


class Outcome(StrEnum):
    """What became of a trial found."""

    WRITTEN = "written"
    SKIPPED = "skipped"
