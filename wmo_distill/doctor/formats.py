"""What each format can hold for training, and what switches it on; docs/sources.md in brief."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """What to do about what the trials of a format lack, in a phrase each; "" where nothing is."""

    logprobs: str = "the recorder must ask the server for them"
    """What makes log-probabilities be recorded."""
    versions: str = "no file of this format records them"
    """Where a policy version and a training step come from."""
    grade: str = "no file of this format records a reward"
    """Where a reward comes from, and why there may be none."""
    tokens: str = "the recorder must ask the server for them"
    """What switches the recording of tokens on."""
    ending: str = "no file of this format records one"
    """Why an ending may be unknown."""
    summarized: str = ""
    """How to keep one history."""


HARBOR = "harbor"

FORMATS = {
    HARBOR: Format(
        logprobs="the server, and any proxy before it, must answer `logprobs: true`, which Harbor "
        "asks for where collection is on",
        versions="an agent's kwargs and sinks can record them",
        tokens="",
        ending="",
        grade="the agent never ran, or its work was never graded; they keep their rows and stay "
        "outside every rate",
        summarized="; with enable_summarize: false it ends at the context limit instead",
    ),
    "nemo_gym": Format(
        tokens="set token_id_capture in Gym's configuration (enabled: true, dir: an absolute path) "
        "and in the agent (token_id_capture: true), or return_token_id_information: true of the "
        "vLLM model server",
        logprobs="the capture refuses an answer in which one is no finite number",
        grade="a line of the rollouts file has the reward: the PATH must hold that file and the "
        "captures; a failed rollout has none",
        ending="only failures and incomplete answers are recorded",
    ),
    "openenv": Format(
        tokens="run the proxy's sessions in type train (eval keeps no ids), serve vLLM with "
        "--return-tokens-as-token-ids, and save each session's document with "
        "include_discarded=true before the proxy ends",
        logprobs="serve vLLM with --logprobs-mode processed_logprobs; a null or NaN costs a turn "
        "all of its own",
        grade="results of `openenv harbor rollout --out` have it: save them next to the documents",
        ending="only exceptions and spent budgets are recorded, in results alone",
    ),
    "agentlightning": Format(
        tokens="ask the server for return_token_ids, and save the events of each rollout before "
        "the trainer deletes it",
        logprobs="ask the server for logprobs with each request",
        versions="`model_version` of a request's event is both",
        grade="an event of type reward has it; one that the trainer filled in (fallback) is not "
        "valid",
        ending="only a failure is recorded, in the saved rollout",
    ),
    "tinker_capture": Format(
        tokens="a prompt that holds an image has no ids in the capture, and a call that failed no "
        "answer",
        logprobs="some samples were captured without theirs",
        versions="`model_path` of a call is the version, and the number at its end the step; there "
        "is none where the base model was sampled",
        grade="iteration_N/*_rollout_summaries.jsonl of the run have it: give the run's directory "
        "as PATH, not its capture/",
    ),
    "rllm_gateway": Format(
        tokens="the server behind the gateway must send token ids",
        logprobs="the server behind the gateway must send logprobs; the nulls of a streamed answer "
        "cost it all of its own",
        versions="the gateway of rLLM's repository records weight_version, the released package "
        "nothing",
        grade="the gateway records none: rewards are in rLLM's episodes",
        ending="the gateway records none: endings are in rLLM's episodes",
    ),
    "verifiers": Format(
        tokens="set the client of the evaluation to type train, an engine's own generate endpoint "
        "(prime-rl always does); the eval client keeps no ids, and rows of v0 only those of a "
        "saved `trajectory`",
        logprobs="the engine must answer one for each sampled token",
        versions="0.4.1 and runs of prime-rl record the version, runs of prime-rl the step",
        grade="scoring was switched off, did not end, or the rollout failed",
        ending="the trace has no stop condition that we know",
    ),
}
