"""What to change in the next `harbor run`, or to declare at the build, so that trials can train."""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict


class Advice(BaseModel):
    """One thing that is missing, and the lines that mend it."""

    model_config = ConfigDict(frozen=True)

    missing: str
    of: str
    """How many lack it, such as `12 of 40 trials`."""
    why: str
    for_rl_only: bool
    job: tuple[str, ...] = ()
    """Lines for the job config of `harbor run`, each `key: value` under its place."""
    agent: tuple[str, ...] = ()
    """Lines under the agent's `kwargs`."""
    declare: tuple[str, ...] = ()
    """`--declare` arguments of `build`, for the trials that are there already."""
    build: tuple[str, ...] = ()
    """Other options of `build`."""


@dataclass(frozen=True, slots=True)
class Needs:
    """How many lack what: over all trials, all jobs, or the trials and episodes of a sample."""

    trials: int
    read: int
    """Trials that were read."""
    recording: int
    """Trials whose agent can record tokens."""
    episodes: int
    """Of the trials that were read, without those whose agent samples no model."""
    sampled: int
    """Episodes with a sampled token."""
    asked: int
    """The same; where there are none, those of agents that can record tokens and ran."""
    version_unknown: int
    """Trials read whose result or config has another schema_version."""
    retries_unknown: int
    """Trials of `harbor serve` whose database cannot be read."""
    not_collecting: int
    """Trials whose agent can record tokens and whose config does not ask it to."""
    without_recorder: int
    """Trials whose agent writes no tokens."""
    unknown_agent: int
    """Trials of an agent of which we do not know whether it writes tokens, and that hold none."""
    silent: int
    """Trials read that collect and took turns, but hold no token."""
    without_logprobs: int
    temperature: int
    """Episodes of which no record says the temperature, nor that none was sent."""
    temperature_not_sent: int
    logprob_mode: int
    policy_version: int
    tokenizer: int
    unmeasured: int
    other_reward: int
    """Episodes whose rewards have no usable key `reward` in [0, 1]."""
    alone: int
    """Jobs with one attempt a task."""
    rewritten: int
    """Episodes that did not extend a prompt although nothing was summarized."""
    summarized: int


def advise(needs: Needs) -> tuple[Advice, ...]:
    """Advice in the order of what matters most; none for what no trial lacks."""
    asked = "episodes with tokens" if needs.sampled else "episodes that ran"
    table = [
        (needs.version_unknown, needs.read, "trials read", Advice(
            missing="a schema_version that we know",
            of="",
            why="result.json, or its config, says another schema_version than 1: such a trial is "
            "read as one without a result; a newer wmo-distill may know it",
            for_rl_only=False,
        )),
        (needs.retries_unknown, needs.trials, "trials", Advice(
            missing="which attempts were retried",
            of="",
            why="harbor serve ran these trials, and only its database (harbor.sqlite3, next to "
            "files/) says which attempt repeats which; it cannot be read from here, so an attempt "
            "that failed is counted with its retry",
            for_rl_only=False,
        )),
        (needs.not_collecting, needs.recording, "trials of agents that can record", Advice(
            missing="token collection is off",
            of="",
            why="Harbor records no token ids unless the config asks for them; "
            "a trial run without them cannot be mended",
            for_rl_only=False,
            agent=("collect_rollout_details: true",),
        )),
        (needs.without_recorder, needs.trials, "trials", Advice(
            missing="a token recorder",
            of="",
            why="their agent samples a model and writes no token ids, whatever its arguments: run "
            "it behind a recorder that writes sink files, and build with --sinks DIR",
            for_rl_only=False,
            build=("--sinks DIR",),
        )),
        (needs.unknown_agent, needs.trials, "trials", Advice(
            missing="an agent that we know",
            of="",
            why="none of Harbor's own, and no tokens were found: whether it can record them is "
            "unknown to us; a recorder next to it always can (build with --sinks DIR)",
            for_rl_only=False,
        )),
        (needs.silent, needs.read, "trials read", Advice(
            missing="the server sends no token ids",
            of="",
            why="collection is on, but answers held no ids: serve with vLLM 0.10.2 or newer, name "
            "the model hosted_vllm/NAME, and let no proxy drop return_token_ids",
            for_rl_only=False,
        )),
        (needs.without_logprobs, needs.sampled, "episodes with tokens", Advice(
            missing="log-probabilities",
            of="",
            why="fine for supervised use, not for RL: the server, and any proxy before it, must "
            "answer `logprobs: true`, which Harbor asks for where collection is on",
            for_rl_only=True,
        )),
        (needs.temperature, needs.asked, asked, Advice(
            missing="the temperature, which no file records",
            of="",
            why="no file holds it: it was an agent's default, or the server's",
            for_rl_only=True,
            agent=("temperature: 1.0",),
            declare=("temperature=VALUE",),
        )),
        (needs.temperature_not_sent, needs.asked, asked, Advice(
            missing="the temperature, which was not sent",
            of="",
            why="the server then applied its own default, and its own top_p and top_k: with vLLM "
            "and SGLang those of the model's generation_config.json, else 1.0; declare what it was",
            for_rl_only=True,
            agent=("temperature: 1.0",),
            declare=("temperature=VALUE",),
        )),
        (needs.logprob_mode, needs.sampled, "episodes with tokens", Advice(
            missing="the log-probability mode",
            of="",
            why="raw is before temperature and filters (vLLM's own default), processed is after "
            "(vLLM --logprobs-mode processed_logprobs); no file records it",
            for_rl_only=True,
            declare=("logprob_mode=MODE",),
        )),
        (needs.policy_version, needs.sampled, "episodes with tokens", Advice(
            missing="the policy version",
            of="",
            why="which weights sampled the tokens; needed to separate old data from new",
            for_rl_only=True,
            declare=("policy_version=VERSION",),
        )),
        (needs.tokenizer, needs.sampled, "episodes with tokens", Advice(
            missing="the tokenizer",
            of="",
            why="ids mean nothing without it; any fingerprint that identifies yours will do",
            for_rl_only=False,
            declare=("tokenizer=NAME",),
        )),
        (needs.other_reward, needs.episodes, "episodes read", Advice(
            missing="a reward under the key `reward` in [0, 1]",
            of="",
            why="name the key that is the reward, or the range that it has",
            for_rl_only=False,
            build=("--reward-key KEY", "--reward-range LO HI"),
        )),
        (needs.unmeasured, needs.episodes, "episodes read", Advice(
            missing="a valid grade",
            of="",
            why="the agent never ran, or its work was never graded; they keep their rows and "
            "stay outside every rate",
            for_rl_only=True,
        )),
        (needs.alone, 0, "jobs", Advice(
            missing="a second attempt at each task",
            of="",
            why="group-relative advantages compare the attempts at one task",
            for_rl_only=True,
            job=("n_attempts: 8",),
        )),
        (needs.rewritten, needs.sampled, "episodes with tokens", Advice(
            missing="prompts that extend the call before",
            of="",
            why="the template drops what was sampled before, such as thinking: nothing is lost, "
            "but such an episode becomes several sequences",
            for_rl_only=False,
            agent=("interleaved_thinking: true",),
        )),
        (needs.summarized, needs.sampled, "episodes with tokens", Advice(
            missing="one history",
            of="",
            why="summarization began a new one: nothing is lost, but such an episode becomes "
            "several sequences; with enable_summarize: false it ends at the context limit instead",
            for_rl_only=False,
        )),
    ]  # fmt: skip
    return tuple(
        advice.model_copy(update={"of": f"{n} of {of} {what}" if of else f"{n} {what}"})
        for n, of, what, advice in table
        if n
    )
