"""The options of a build that alter rows; the manifest holds them and a second run must match."""

import math
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from wmo_distill.declare import check_declared


class BuildOptions(BaseModel):
    """What decides the contents of a row, beside the trial's own files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_turns: int | None = Field(default=None, ge=1)
    reward_key: str = "reward"
    reward_range: tuple[float, float] = (0.0, 1.0)
    reward_files: bool = False
    pass_at: float | None = Field(default=None, allow_inf_nan=False)
    declare: dict[str, str | int | float] = Field(default_factory=dict)
    salvage: bool = True
    extra: bool = True
    sinks: Path | None = None

    @field_validator("reward_range")
    @classmethod
    def _ordered(cls, value: tuple[float, float]) -> tuple[float, float]:
        low, high = value
        if not low <= high:
            raise ValueError(f"expected LO <= HI, found {low} {high}")
        return value

    @field_validator("declare")
    @classmethod
    def _known(cls, value: dict[str, Any]) -> dict[str, Any]:
        return check_declared(value)

    def row_altering(self) -> dict[str, Any]:
        """What the manifest holds; paths are told apart by use, not by place."""
        values = self.model_dump(mode="json", exclude={"sinks"})
        values["sinks"] = self.sinks is not None
        # JSON has no infinity; pydantic reads the word as the number.
        values["reward_range"] = [x if math.isfinite(x) else str(x) for x in self.reward_range]
        return values
