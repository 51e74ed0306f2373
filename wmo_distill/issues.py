"""The closed set of things that can be wrong with a trial; one code an occurrence."""

from enum import StrEnum


class Issue(StrEnum):
    """An issue code; `meaning` says it in a line, `drops_call` that each one is a lost call.

    `note`: it describes a sound trial. Nothing is damaged or lost, so `--strict` passes over it.
    """

    meaning: str
    drops_call: bool
    note: bool

    def __new__(
        cls, code: str, meaning: str, drops_call: bool = False, note: bool = False
    ) -> "Issue":
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        member.drops_call = drops_call
        member.note = note
        return member

    # fmt: off
    # the trial's own files
    RESULT_MISSING = "result_missing", "no result.json: the trial is running or was killed"
    RESULT_UNREADABLE = "result_unreadable", "result.json is no readable JSON trial result"
    RESULT_VERSION_UNKNOWN = ("result_version_unknown",
        "schema_version of the result or its config is not 1: read as an unreadable result")
    RESULT_UNFINISHED = "result_unfinished", "result.json has no finished_at"
    CHANGED_WHILE_READING = ("changed_while_reading",
        "files changed after the trial was found; read again next time")
    CONFIG_UNREADABLE = ("config_unreadable",
        "no readable trial config: cap and sampling are unknown")
    AGENT_RESULT_MISSING = "agent_result_missing", "the result holds no agent_result object"
    STEP_DAMAGED = "step_damaged", "an element of step_results is no object"
    AGENT_RESULT_BESIDE_STEPS = ("agent_result_beside_steps",
        "agent_result and step_results both hold data; agent_result was used")
    STEPS_NOT_RECORDED = ("steps_not_recorded",
        "step directories are here, but no result records their steps: they were not read")
    STEPS_CUT_SHORT = ("steps_cut_short",
        "the trial was ended by an exception that belongs to no recorded step")
    DIRECTORY_MISSING = "directory_missing", "a cell names a directory that is not there"

    # token lists
    DETAILS_MISSING = "details_missing", "no rollout_details key"
    DETAILS_NULL = "details_null", "rollout_details is null"
    DETAILS_EMPTY = ("details_empty",
        "rollout_details is []: token collection was off, or nothing was sampled")
    DETAILS_DAMAGED = "details_damaged", "rollout_details is no list"
    ENTRY_DAMAGED = ("entry_damaged",
        "an element of rollout_details is no object, or one of its lists is no list")
    ENTRY_EMPTY = "entry_empty", "an element of rollout_details has none of the token lists"
    NO_COMPLETION_IDS = ("no_completion_ids",
        "an entry or sink holds no completion ids: no token evidence")
    LISTS_MISALIGNED = "lists_misaligned", "the lists of an entry differ in length"
    TURNS_MISSING = ("turns_missing",
        "fewer recorded calls than the trajectory has agent steps with ids")
    REBUILT_FROM_TRAJECTORY = ("rebuilt_from_trajectory",
        "misaligned lists were rebuilt from the trajectory")
    ALIGNED_BY_PROOF = "aligned_by_proof", "misaligned lists were aligned by their contents"
    TOKENS_FROM_TRAJECTORY = "tokens_from_trajectory", "the tokens come from the trajectory alone"
    EXTRA_UNPLACED = "extra_unplaced", "per-call extras could not be placed and were left out"
    EXTRA_TOO_LARGE = "extra_too_large", "a row of over 1 GB of extras lost them"

    # one call
    PROMPT_MISSING = "prompt_missing", "a call without a prompt was dropped", True
    PROMPT_EMPTY = "prompt_empty", "a call with an empty prompt was dropped", True
    PROMPT_DAMAGED = ("prompt_damaged",
        "a call whose prompt holds something that is no id was dropped", True)
    CALL_UNPLACED = "call_unplaced", "a call whose lists cannot be placed was dropped", True
    CALL_NOT_SALVAGED = ("call_not_salvaged",
        "a call was dropped with its trial under --no-salvage", True)
    CALL_WITHOUT_EVIDENCE = ("call_without_evidence",
        "a call of an entry or sink without completion ids was dropped", True)
    CALL_IN_CORRUPT_SINK = "call_in_corrupt_sink", "a line of a corrupt sink was dropped", True
    CALL_LOST = "call_lost", "a call that counters, turns or tokens prove is recorded nowhere", True
    RECORD_UNREADABLE = ("record_unreadable",
        "a record of a call that is torn, altered, no JSON or of an unknown version was dropped",
        True)
    DROPPED_BY_RECORDER = ("dropped_by_recorder",
        "a call that the recorder counted and left out of what it handed over", True)
    CAPTURE_INCOMPLETE = ("capture_incomplete",
        "the recorder says that calls are missing, or masked the rollout")
    CAPTURE_CONFLICT = ("capture_conflict",
        "a capture holds none of the answers of its rollout: the rollout's own were used")
    CALL_FAILED = "call_failed", "a recorded call that got no answer was dropped", True
    DUPLICATE = "duplicate", "a call recorded again, key and content alike, was dropped", True
    CALL_CONFLICT = "call_conflict", "two calls with one key and other contents: both kept"
    SUPERSEDED = ("superseded",
        "an answer that the agent did not go on from: kept apart and not trained")
    AMBIGUOUS_LAST_CALL = ("ambiguous_last_call",
        "a prompt was asked again and nothing follows: the last answer is taken as used")
    LINEAGE_UNCLEAR = ("lineage_unclear",
        "two chats with one first message ran side by side: each has its own segment")
    HOLE_UNPROVABLE = ("hole_unprovable",
        "prompts show no sign of where an answer begins: a missing call is not seen", False, True)
    HISTORY_BEFORE_FIRST_CALL = ("history_before_first_call",
        "the first prompt already holds an answer, as in few-shot or a resumed chat", False, True)
    CALLS_BEYOND_TURNS = ("calls_beyond_turns",
        "one recorded call more than the episode's turns account for: kept")
    CALL_BEFORE_START = "call_before_start", "a call from before the agent began: kept"
    CALL_AFTER_END = "call_after_end", "a call from after the agent had ended: kept"
    COMPLETION_MISSING = ("completion_missing",
        "a call's completion ids were not recorded: kept as context")
    COMPLETION_DAMAGED = ("completion_damaged",
        "a call's completion holds something that is no id: kept as context")
    LOGPROBS_MISSING = "logprobs_missing", "a call has no log-probabilities"
    LOGPROBS_LENGTH = ("logprobs_length",
        "a call has another number of log-probabilities than ids: ids kept alone")
    LOGPROBS_DAMAGED = ("logprobs_damaged",
        "a call's log-probabilities hold something that is no number: ids kept alone")
    LOGPROB_NOT_FINITE = "logprob_not_finite", "one log-probability is null or not finite"
    LOGPROB_IMPLAUSIBLE = ("logprob_implausible",
        "one log-probability is -1000 or lower: kept, outside statistics and RL losses")
    LOGPROBS_ALL_ZERO = "logprobs_all_zero", "every log-probability of a call is 0: suspect, kept"
    LOGPROB_POSITIVE = ("logprob_positive",
        "a call holds a clearly positive log-probability: suspect, kept")

    # records of other recorders
    LAYOUT_UNKNOWN = ("layout_unknown",
        "a record of a call in a layout that is not read: its ids are elsewhere")
    NO_COORDINATES = ("no_coordinates",
        "calls without the name of a rollout: each chat is an episode, in no group")
    LOGPROBS_FROM_RAW_RESPONSE = ("logprobs_from_raw_response",
        "a list of log-probabilities lost its nulls and was read from the server's own answer")
    LOGPROBS_ROUNDED = ("logprobs_rounded",
        "the writer rounded all log-probabilities to four decimals", False, True)
    TENSOR_NOT_READABLE = ("tensor_not_readable",
        "a tensor of a message (experts, top log-probabilities, images) was left out")
    CHATS_UNLABELLED = ("chats_unlabelled",
        "several chats, and no link says what they are: distinguished by their system messages")
    AGENT_NOT_TRAINABLE = ("agent_not_trainable",
        "an agent that is not to be trained: none of its chats is the main one", False, True)

    # sinks
    SINK_MISSING = "sink_missing", "no sink file: the trial's own tokens were used"
    SINK_CORRUPT = ("sink_corrupt",
        "the sink has a bad line or call order: the trial's own tokens were used")
    SINK_TORN_LINE = "sink_torn_line", "the sink's last line was torn and dropped"
    SINK_OUT_OF_ORDER = "sink_out_of_order", "sink lines out of order were sorted"
    SINK_NOT_SPLIT = ("sink_not_split",
        "one sink file for a multi-step trial: not split, the trial's own tokens were used")
    RUN_TRACE_UNREADABLE = ("run_trace_unreadable",
        "wmo-run.json is no readable object with a stop reason")

    # how the episode ended
    STOP_WORD_UNKNOWN = "stop_word_unknown", "the run trace's stop reason is no word of ours"
    EPISODES_MISSING = "episodes_missing", "metadata.n_episodes is no integer"
    TRAJECTORY_MISSING = "trajectory_missing", "no trajectory: the ending is unknown"
    TRAJECTORY_UNREADABLE = "trajectory_unreadable", "the trajectory is no readable ATIF document"
    CONTINUATION_MISSING = "continuation_missing", "a continuation file is missing or unreadable"
    CONTINUATION_CYCLIC = ("continuation_cyclic",
        "continuation files refer to each other in a circle")
    CONTINUATION_ESCAPES = ("continuation_escapes",
        "a continuation reference leads out of the agent directory")
    TURNS_DISAGREE = "turns_disagree", "recorded turns and n_episodes do not fit each other"
    IMAGE_IN_MESSAGE = ("image_in_message",
        "a message holds an image; its text was used", False, True)
    MAX_TURNS_UNKNOWN = "max_turns_unknown", "the trial's config cannot be read: cap unknown"
    MAX_TURNS_CONFLICT = "max_turns_conflict", "--max-turns differs from the trial's own config"

    STOP_CONDITION_UNKNOWN = ("stop_condition_unknown",
        "a stop condition of the task's own: the ending is unknown")
    STOP_INFERRED = ("stop_inferred",
        "a timeout of grading overwrote why the agent ended: taken from turns and times")
    EARLIER_ATTEMPTS_FAILED = ("earlier_attempts_failed",
        "errors of attempts before this one, which did not fail", False, True)

    # how it was sampled
    MODELS_DIFFER = "models_differ", "a call went to another model than the agent's"
    DECLARED_CONFLICT = ("declared_conflict",
        "a declared value differs from what is recorded, which was kept")
    SAMPLING_DAMAGED = ("sampling_damaged",
        "a recorded sampling argument has the wrong type and was taken as not recorded")
    SAMPLING_CONFLICT = ("sampling_conflict",
        "the trial's config and its trajectory record different sampling: the config's was kept")
    SAMPLING_VARIES = ("sampling_varies",
        "a sampling argument differs between the calls of an episode: left null", False, True)

    SAMPLING_LEFT_OUT = ("sampling_left_out",
        "a sampling argument, or a member of one, that is in no list of names and types was left "
        "out of `sampling`", False, True)

    # secrets
    CREDENTIAL_CUT = ("credential_cut",
        "a recorded text held a password, key or signature: it was cut out", False, True)
    SECRET_FOUND = ("secret_found",
        "the text of the token ids holds a secret; `secrets` says where, and by which rule")
    CALL_WITH_SECRET = ("call_with_secret",
        "a call of an episode that holds a secret was dropped under --on-secret drop", True)
    SECRETS_UNSEEN = ("secrets_unseen",
        "token ids that the tokenizer does not know could not be searched for secrets")
    TEXT_MASKED = ("text_masked",
        "the trial's text holds a mask such as [REDACTED]: its token ids still hold what it hides")

    # how it was graded
    REWARDS_MISSING = "rewards_missing", "the result holds no rewards"
    REWARDS_PARTIAL = "rewards_partial", "a reward is null: its scoring began and did not end"
    REWARD_KEY_MISSING = "reward_key_missing", "the rewards have no such key"
    REWARD_NOT_NUMBER = "reward_not_number", "a reward is no JSON number"
    REWARD_NOT_FINITE = "reward_not_finite", "a reward is not finite"
    REWARD_OUT_OF_RANGE = "reward_out_of_range", "the reward is outside the allowed range"
    REWARD_FILE_UNREADABLE = "reward_file_unreadable", "a reward file cannot be read"
    REWARD_FILE_DISAGREES = "reward_file_disagrees", "a reward file differs from the result"
    REWARD_FROM_FILE = "reward_from_file", "the reward comes from a reward file"
    TESTS_UNREADABLE = "tests_unreadable", "ctrf.json is no readable test report"
    TESTS_DISAGREE = "tests_disagree", "a report's summary and its items differ"
    TESTS_WITHOUT_VERDICT = "tests_without_verdict", "a test report gave no verdict"
    REWARD_AGAINST_TESTS = ("reward_against_tests",
        "reward 1.0 with a failed test, or 0.0 where every test passed")
    CELL_STEP_MISSING = "cell_step_missing", "a cell grades a step that the trial did not record"

    # values that no column can hold
    VALUE_DAMAGED = "value_damaged", "a recorded value has the wrong type or range for its column"

    # how Harbor writes times
    TIME_WITHOUT_ZONE = ("time_without_zone",
        "times without a zone, as Harbor wrote them until January 2026: taken as UTC", False, True)
    # fmt: on


def is_note(code: str) -> bool:
    """Whether a code describes a sound trial; one that we do not know does not."""
    return any(issue.value == code and issue.note for issue in Issue)


def meaning_of(code: str) -> str:
    """The meaning in a line, notes marked; "" for a code that we do not know."""
    return next((i.meaning + " (note)" * i.note for i in Issue if i.value == code), "")


def meanings_table() -> str:
    """The codes and meanings as a Markdown table, notes marked; docs/records.md holds it."""
    rows = [f"| `{issue.value}` | {meaning_of(issue.value)} |" for issue in Issue]
    return "\n".join(["| code | meaning |", "| --- | --- |", *rows])
