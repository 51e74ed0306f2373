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
    sampled: int
    episodes: int
    not_collecting: int
    """Trials whose config does not turn token collection on."""
    silent: int
    """Sampled trials that collect and took turns, but hold no token."""
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
    trials, episodes = needs.trials, needs.episodes
    table = [
        (needs.not_collecting, trials, "trials", Advice(
            missing="token collection is off",
            of="",
            why="Harbor records no token ids unless the agent is told to; "
            "a trial run without them cannot be mended",
            for_rl_only=False,
            agent=("collect_rollout_details: true",),
        )),
        (needs.silent, needs.sampled, "sampled trials", Advice(
            missing="the server sends no token ids",
            of="",
            why="collection is on, but answers held no ids: serve with vLLM 0.10.2 or newer, name "
            "the model hosted_vllm/NAME, and let no proxy drop return_token_ids",
            for_rl_only=False,
        )),
        (needs.without_logprobs, episodes, "sampled episodes", Advice(
            missing="log-probabilities",
            of="",
            why="fine for supervised use, not for RL: the server, and any proxy before it, must "
            "answer `logprobs: true`, which Harbor asks for where collection is on",
            for_rl_only=True,
        )),
        (needs.temperature, episodes, "sampled episodes", Advice(
            missing="the temperature, which no file records",
            of="",
            why="whatever sampled these tokens had one: an agent's default, or the server's",
            for_rl_only=True,
            agent=("temperature: 1.0",),
            declare=("temperature=VALUE",),
        )),
        (needs.temperature_not_sent, episodes, "sampled episodes", Advice(
            missing="the temperature, which was not sent",
            of="",
            why="the server then applied its own default, and its own top_p and top_k: with vLLM "
            "and SGLang those of the model's generation_config.json, else 1.0; declare what it was",
            for_rl_only=True,
            agent=("temperature: 1.0",),
            declare=("temperature=VALUE",),
        )),
        (needs.logprob_mode, episodes, "sampled episodes", Advice(
            missing="the log-probability mode",
            of="",
            why="raw is before temperature and filters (vLLM's own default), processed is after "
            "(vLLM --logprobs-mode processed_logprobs); no file records it",
            for_rl_only=True,
            declare=("logprob_mode=MODE",),
        )),
        (needs.policy_version, episodes, "sampled episodes", Advice(
            missing="the policy version",
            of="",
            why="which weights sampled the tokens; needed to tell old data from new",
            for_rl_only=True,
            declare=("policy_version=VERSION",),
        )),
        (needs.tokenizer, episodes, "sampled episodes", Advice(
            missing="the tokenizer",
            of="",
            why="ids mean nothing without it; any fingerprint that tells yours apart will do",
            for_rl_only=False,
            declare=("tokenizer=NAME",),
        )),
        (needs.other_reward, episodes, "sampled episodes", Advice(
            missing="a reward under the key `reward` in [0, 1]",
            of="",
            why="name the key that is the reward, or the range that it has",
            for_rl_only=False,
            build=("--reward-key KEY", "--reward-range LO HI"),
        )),
        (needs.unmeasured, episodes, "sampled episodes", Advice(
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
        (needs.rewritten, episodes, "sampled episodes", Advice(
            missing="prompts that extend the call before",
            of="",
            why="the template drops what was sampled before, such as thinking: nothing is lost, "
            "but such an episode becomes several sequences",
            for_rl_only=False,
            agent=("interleaved_thinking: true",),
        )),
        (needs.summarized, episodes, "sampled episodes", Advice(
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
