"""What to change in the next run, or to declare at the build, so that trials can train."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pydantic import BaseModel, ConfigDict

from wmo_distill.doctor.formats import FORMATS, HARBOR, Format


class Advice(BaseModel):
    """One thing that is missing, and the lines that mend it."""

    model_config = ConfigDict(frozen=True)

    format: str
    """Whose trials lack it."""
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
    """How many trials of a format lack what: of all, of all jobs, or of those that were read."""

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
    unexplained: int
    """Trials read that hold no token, and no config that could say why."""
    without_tokens: int
    """Episodes without a sampled token."""
    without_logprobs: int
    temperature: int
    """Episodes of which no record says the temperature, nor that none was sent."""
    temperature_not_sent: int
    filters: int
    """Episodes with no top-p or no top-k."""
    logprob_mode: int
    policy_version: int
    train_step: int
    tokenizer: int
    ending: int
    """Episodes of which no record says why they ended."""
    unmeasured: int
    other_reward: int
    """Episodes whose rewards have no usable key `reward` in [0, 1]."""
    alone: int
    """Jobs with one attempt a task."""
    rewritten: int
    """Episodes that did not extend a prompt although nothing was summarized."""
    summarized: int


def _lack(
    kind: str,
    *,
    missing: str,
    why: str,
    for_rl_only: bool,
    job: tuple[str, ...] = (),
    agent: tuple[str, ...] = (),
    declare: tuple[str, ...] = (),
    build: tuple[str, ...] = (),
) -> Advice:
    """The lines for a job config are Harbor's alone."""
    if kind != HARBOR:
        job = agent = ()
    return Advice(
        format=kind, missing=missing, of="", why=why, for_rl_only=for_rl_only, job=job,
        agent=agent, declare=declare, build=build,
    )  # fmt: skip


def advise(needs: Mapping[str, Needs]) -> tuple[Advice, ...]:
    """What trials lack, what matters most first, by format; nothing of what none of them lacks."""
    topics = zip(*(_table(kind, of) for kind, of in needs.items()), strict=True)
    return tuple(lack for topic in topics for lack in topic if lack is not None)


def _table(kind: str, needs: Needs) -> tuple[Advice | None, ...]:
    """A row for each thing that trials of a format may lack, the same rows for every format."""
    form = FORMATS.get(kind, Format())
    lack = partial(_lack, kind)
    asked = "episodes with tokens" if needs.sampled else "episodes that ran"
    table = [
        (needs.version_unknown, needs.read, "trials read", lack(
            missing="a schema_version that we know",
            why="result.json, or its config, says another schema_version than 1: such a trial is "
            "read as one without a result; a newer wmo-distill may know it",
            for_rl_only=False,
        )),
        (needs.retries_unknown, needs.trials, "trials", lack(
            missing="which attempts were retried",
            why="harbor serve ran these trials, and only its database (harbor.sqlite3, next to "
            "files/) says which attempt repeats which; it cannot be read from here, so an attempt "
            "that failed is counted with its retry",
            for_rl_only=False,
        )),
        (needs.not_collecting, needs.recording, "trials of agents that can record", lack(
            missing="token collection is off",
            why="Harbor records no token ids unless the config asks for them; "
            "a trial run without them cannot be mended",
            for_rl_only=False,
            agent=("collect_rollout_details: true",),
        )),
        (needs.without_recorder, needs.trials, "trials", lack(
            missing="a token recorder",
            why="their agent samples a model and writes no token ids, whatever its arguments: run "
            "it behind a recorder that writes sink files, and build with --sinks DIR",
            for_rl_only=False,
            build=("--sinks DIR",),
        )),
        (needs.unknown_agent, needs.trials, "trials", lack(
            missing="an agent that we know",
            why="none of Harbor's own, and no tokens were found: whether it can record them is "
            "unknown to us; a recorder next to it always can (build with --sinks DIR)",
            for_rl_only=False,
        )),
        (needs.silent, needs.read, "trials read", lack(
            missing="the server sends no token ids",
            why="collection is on, but answers held no ids: serve with vLLM 0.10.2 or newer, name "
            "the model hosted_vllm/NAME, and let no proxy drop return_token_ids",
            for_rl_only=False,
        )),
        (needs.unexplained, needs.read, "trials read", lack(
            missing="token ids",
            why="no file of these trials holds any, and no config says whether Harbor was asked "
            "for them; where a recorder wrote sink files, give their directory, here too",
            for_rl_only=False,
            build=("--sinks DIR",),
        )),
        (needs.without_tokens * bool(form.tokens), needs.episodes, "episodes read", lack(
            missing="token ids",
            why=form.tokens,
            for_rl_only=False,
        )),
        (needs.without_logprobs, needs.sampled, "episodes with tokens", lack(
            missing="log-probabilities",
            why=f"fine for supervised use, not for RL: {form.logprobs}",
            for_rl_only=True,
        )),
        (needs.temperature, needs.asked, asked, lack(
            missing="the temperature, which no file records",
            why="no file holds it: it was an agent's default, or the server's",
            for_rl_only=True,
            agent=("temperature: 1.0",),
            declare=("temperature=VALUE",),
        )),
        (needs.temperature_not_sent, needs.asked, asked, lack(
            missing="the temperature, which was not sent",
            why="the server then applied its own default, and its own top_p and top_k: with vLLM "
            "and SGLang those of the model's generation_config.json, else 1.0; declare what it was",
            for_rl_only=True,
            agent=("temperature: 1.0",),
            declare=("temperature=VALUE",),
        )),
        (needs.filters, needs.sampled, "episodes with tokens", lack(
            missing="top-p and top-k",
            why="log-probabilities of mode processed depend on them; a server applies its own "
            "where none are sent: with vLLM and SGLang those of the model's "
            "generation_config.json, else none (top_p=1, top_k=-1)",
            for_rl_only=True,
            declare=("top_p=VALUE", "top_k=VALUE"),
        )),
        (needs.logprob_mode, needs.sampled, "episodes with tokens", lack(
            missing="the log-probability mode",
            why="raw is before temperature and filters (vLLM's own default), processed is after "
            "(vLLM --logprobs-mode processed_logprobs); no file records it",
            for_rl_only=True,
            declare=("logprob_mode=MODE",),
        )),
        (needs.policy_version, needs.sampled, "episodes with tokens", lack(
            missing="the policy version",
            why="which weights sampled the tokens; needed to separate old data from new: "
            + form.versions,
            for_rl_only=True,
            declare=("policy_version=VERSION",),
        )),
        (needs.train_step, needs.sampled, "episodes with tokens", lack(
            missing="the training step",
            why="how old the weights were: datums --max-staleness needs it, or versions that are "
            "integers",
            for_rl_only=True,
            declare=("train_step=N",),
        )),
        (needs.tokenizer, needs.sampled, "episodes with tokens", lack(
            missing="the tokenizer",
            why="ids mean nothing without it; any fingerprint that identifies yours will do",
            for_rl_only=False,
            declare=("tokenizer=NAME",),
        )),
        (needs.other_reward, needs.episodes, "episodes read", lack(
            missing="a reward under the key `reward` in [0, 1]",
            why="name the key that is the reward, or the range that it has",
            for_rl_only=False,
            build=("--reward-key KEY", "--reward-range LO HI"),
        )),
        (needs.ending * bool(form.ending), needs.episodes, "episodes read", lack(
            missing="an ending",
            why=form.ending,
            for_rl_only=False,
        )),
        (needs.unmeasured, needs.episodes, "episodes read", lack(
            missing="a valid grade",
            why=form.grade,
            for_rl_only=True,
        )),
        (needs.alone, 0, "jobs", lack(
            missing="a second attempt at each task",
            why="group-relative advantages compare the attempts at one task",
            for_rl_only=True,
            job=("n_attempts: 8",),
        )),
        (needs.rewritten, needs.sampled, "episodes with tokens", lack(
            missing="prompts that extend the call before",
            why="the template drops what was sampled before, such as thinking: nothing is lost, "
            "but such an episode becomes several sequences",
            for_rl_only=False,
            agent=("interleaved_thinking: true",),
        )),
        (needs.summarized, needs.sampled, "episodes with tokens", lack(
            missing="one history",
            why="summarization began a new one: nothing is lost, but such an episode becomes "
            "several sequences; with enable_summarize: false it ends at the context limit instead",
            for_rl_only=False,
        )),
    ]  # fmt: skip
    return tuple(
        one.model_copy(update={"of": f"{n} of {of} {what}" if of else f"{n} {what}"}) if n else None
        for n, of, what, one in table
    )
