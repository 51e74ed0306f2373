"""The options of a build of datum shards; its manifest holds them."""

from collections.abc import Callable
from enum import StrEnum

from pydantic import Field

from wmo_distill.endings import StopReason
from wmo_distill.operation import Options, option


class Purpose(StrEnum):
    """What the sequences are trained for."""

    RL = "rl"
    SFT = "sft"


class BudgetRule(StrEnum):
    """What of a call is compared with the budget."""

    PROMPT = "prompt"
    SEQUENCE = "sequence"
    """Prompt and completion."""


class DropUnit(StrEnum):
    """What is dropped where a fragment is over a limit."""

    FRAGMENT = "fragment"
    RECORD = "record"


class Graded(StrEnum):
    """Which records train, by their grade."""

    PASSED = "passed"
    FAILED = "failed"
    MEASURED = "measured"

    def wants(self, *, measured: bool, passed: bool | None) -> bool:
        """Whether a record with this grade is one of these."""
        return measured and (self is Graded.MEASURED or passed is (self is Graded.PASSED))


class Baseline(StrEnum):
    """How a reward becomes an advantage among the measured episodes of its group."""

    NONE = "none"
    CENTERED = "centered"
    GRPO = "grpo"
    RLOO = "rloo"


class RewardOf(StrEnum):
    """Whose reward an episode of a multi-step trial takes."""

    STEP = "step"
    TRIAL = "trial"
    """Measured where `trial_reward_valid` is true."""
    RETURN = "return"
    """Its step's and those of the steps after it, discounted; measured where all of them are."""


class Normalize(StrEnum):
    """What has the same weight."""

    TOKEN = "token"
    SEQUENCE = "sequence"


class DatumOptions(Options):
    """The defaults train every sampled token that has a log-probability, once."""

    purpose: Purpose = option(
        Purpose.RL, "What to train for: sft also trains calls without log-probabilities."
    )
    context_budget: int | None = option(
        None, "Leave out fragments with a prompt of more than N tokens.", "N", ge=1
    )
    max_datum_tokens: int | None = option(
        None, "Leave out sequences of more than N tokens.", "N", ge=2
    )
    budget_rule: BudgetRule = option(
        BudgetRule.PROMPT, "What to compare with --context-budget: the prompt, or all of a call."
    )
    drop: DropUnit = option(
        DropUnit.FRAGMENT, "What to leave out where a sequence is over a limit."
    )
    drop_stop_reasons: tuple[StopReason, ...] = option(
        (),
        "Leave out records with this stop reason. May be repeated.",
        "WORD",
        flag="--drop-stop-reason",
    )
    subagents: bool = option(False, "Train the other chats too, of subagents and summarizers.")
    allow_incomplete: bool = option(
        False, "Train episodes with a call that is known to be missing, with --purpose rl."
    )
    max_staleness: int | None = option(
        None,
        "Leave out sequences with a token sampled more than N training steps before the newest one "
        "of the dataset, or at an unknown step.",
        "N",
        ge=0,
    )
    reopen: bool = option(False, "Let a rollback extend the state that it returns to.")
    only: Graded | None = option(None, "Train only records with this grade.")
    tasks: tuple[str, ...] = option(
        (), "Train only this task. May be repeated.", "TASK", flag="--task"
    )
    where: str | None = option(
        None,
        "Train only records for which this is true, in polars' SQL: 'reward < 1 AND n_calls > 20'.",
        "EXPRESSION",
    )
    advantages: Baseline = option(Baseline.NONE, "Baseline of the advantages from rewards.")
    reward: RewardOf = option(
        RewardOf.STEP,
        "Reward of a step: its own, its trial's, or the sum from it to the last step.",
    )
    discount: float = option(
        1.0, "Discount of later steps' rewards, with --reward return.", "X", ge=0.0, le=1.0
    )
    min_group: int = option(0, "Leave out groups with fewer than N measured members.", "N", ge=0)
    drop_constant: bool = option(False, "Leave out groups whose rewards are all equal.")
    normalize: Normalize = option(
        Normalize.TOKEN, "What has weight 1: each token, or each episode (weight 1 / its tokens)."
    )
    routed_experts: bool = option(
        False, "Keep the experts of a mixture that each token was routed to."
    )
    teacher: str | None = option(
        None, "Teacher whose scores to use, as named for `score`.", "NAME", min_length=1
    )
    beta: float = option(
        1.0, "Weight of the teacher's part of an advantage.", "X", allow_inf_nan=False
    )
    clip: float | None = option(None, "Limit of the size of an advantage, above 0.", "X", gt=0.0)
    center: bool = option(False, "Subtract the mean of the advantages, after the clip.")
    teacher_discount: float = option(
        0.0, "Discount of the teacher's part of later tokens.", "X", ge=0.0, le=1.0
    )
    rescored: str | None = option(
        None,
        "Name of the student's logprobs in the cache of --rescored.",
        "NAME",
        flag="--rescored-name",
        min_length=1,
    )
    fresh: bool = option(False, "Replace datums that were made with other options.", exclude=True)
    reference: bool = Field(default=False, exclude=True)
    """Train tokens whatever their log-probability; the word `context_overflow` drops a record."""
    decode: Callable[[list[int]], str] | None = Field(default=None, exclude=True)
    """Gives the text of ids: with it a break by another tokenization is recognised for certain."""

    @property
    def refuses_incomplete(self) -> bool:
        return self.purpose == "rl" and not self.allow_incomplete and not self.reference

    def wants(self, task_id: str | None, *, measured: bool, passed: bool | None) -> bool:
        """Whether an episode of this task, with this grade, passes the filters."""
        if self.tasks and task_id not in self.tasks:
            return False
        return self.only is None or self.only.wants(measured=measured, passed=passed)
