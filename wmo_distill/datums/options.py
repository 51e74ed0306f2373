"""What a build of datum shards is asked for; its manifest holds it."""

from dataclasses import fields
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from wmo_distill.datums.build import DatumRules
from wmo_distill.records import StopReason


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


class DatumOptions(BaseModel):
    """The defaults train every sampled token that has a log-probability, once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    purpose: Literal["rl", "sft"] = "rl"
    context_budget: int | None = Field(default=None, ge=1)
    max_datum_tokens: int | None = Field(default=None, ge=2)
    budget_rule: Literal["prompt", "sequence"] = "prompt"
    drop: Literal["fragment", "record"] = "fragment"
    drop_stop_reasons: tuple[StopReason, ...] = ()
    subagents: bool = False
    allow_incomplete: bool = False
    """Train episodes of which a call is known to be missing, in an RL build."""
    reopen: bool = False
    only: Literal["passed", "failed", "measured"] | None = None
    tasks: tuple[str, ...] = ()
    advantages: Baseline = Baseline.NONE
    reward: RewardOf = RewardOf.STEP
    discount: float = Field(default=1.0, ge=0.0, le=1.0)
    min_group: int = Field(default=0, ge=0)
    drop_constant: bool = False
    normalize: Literal["token", "sequence"] = "token"
    routed_experts: bool = False
    teacher: str | None = Field(default=None, min_length=1)
    """Whose scores make advantages, beside those of rewards."""
    beta: float = Field(default=1.0, allow_inf_nan=False)
    clip: float | None = Field(default=None, gt=0.0)
    center: bool = False
    teacher_discount: float = Field(default=0.0, ge=0.0, le=1.0)
    rescored: str | None = Field(default=None, min_length=1)
    """The name under which the student's re-scored log-probabilities are kept."""

    def wants(self, task_id: str | None, *, measured: bool, passed: bool | None) -> bool:
        """Whether an episode of this task, with this grade, passes the filters."""
        if self.tasks and task_id not in self.tasks:
            return False
        if self.only is None:
            return True
        if self.only == "measured":
            return measured
        return measured and passed is (self.only == "passed")

    def rules(self) -> DatumRules:
        """How a record that is wanted becomes datums."""
        names = {field.name for field in fields(DatumRules)} & set(type(self).model_fields)
        return DatumRules(**{name: getattr(self, name) for name in names})
