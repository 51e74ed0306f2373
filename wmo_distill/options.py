"""The options of a build; a dataset's manifest holds those that alter rows."""

import math
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import ByteSize, field_serializer, field_validator

from wmo_distill.operation import Options, option


class OnSecret(StrEnum):
    """What becomes of a secret in the text of token ids."""

    FLAG = "flag"
    MASK = "mask"
    DROP = "drop"


class BuildOptions(Options):
    """Those that alter rows come first: a later build of the dataset must have the same."""

    max_turns: int | None = option(None, "Turn limit, in place of the recorded one.", "N", ge=1)
    reward_key: str = option("reward", "Name of the verifier's reward to use.", "KEY")
    reward_range: tuple[float, float] = option(
        (0.0, 1.0), "A reward outside of this range is null, with an issue.", "LO HI"
    )
    reward_files: bool = option(False, "Use a reward file where a result has no reward.")
    pass_at: float | None = option(
        None, "Count reward >= X as passed, not reward == 1.0.", "X", allow_inf_nan=False
    )
    declare: dict[str, str | int | float] = option(
        {},
        "Sampling value that no file records: temperature, top_p, top_k, logprob_mode, "
        "policy_version, train_step, tokenizer. May be repeated.",
        "NAME=VALUE",
    )
    salvage: bool = option(True, "Drop all tokens of a trial if any of them is damaged.")
    extra: bool = option(True, "Drop what providers sent next to the tokens.")
    sinks: Path | None = option(
        None, "Directory of token sinks: DIR/TRIAL.jsonl, or DIR/TRIAL/STEP.jsonl.", "DIR"
    )
    on_secret: OnSecret | None = option(
        None,
        "Look for secrets in the text of the token ids. flag: an issue; mask: their tokens are in "
        "no loss mask; drop: the episode has no tokens. Needs --tokenizer.",
    )
    tokenizer: Path | None = option(
        None, "The model's tokenizer.json or tiktoken file, for --on-secret.", "FILE"
    )
    cells: Path | None = option(
        None,
        "Your own grades: a JSON list, a score report, JSONL or Parquet.",
        "FILE",
        exclude=True,
    )
    workers: int | None = option(
        None, "Number of processes. Default: all usable cores.", "N", ge=1, exclude=True
    )
    max_file_size: ByteSize = option(
        "8GB",
        "Skip a trial whose files, or lines of a file, hold more.",
        "SIZE",
        validate_default=True,
        gt=0,
        exclude=True,
    )
    max_trial_seconds: int = option(
        600, "Skip a trial that takes longer to read.", "N", ge=1, exclude=True
    )
    keep_removed: bool = option(False, "Keep the rows of trials that are gone.", exclude=True)
    fresh: bool = option(False, "Build all of OUT again; other options are allowed.", exclude=True)
    dry_run: bool = option(False, "Report what would be read; write nothing.", exclude=True)

    @field_validator("reward_range")
    @classmethod
    def _ordered(cls, value: tuple[float, float]) -> tuple[float, float]:
        low, high = value
        if not low <= high:
            raise ValueError(f"expected LO <= HI, found {low} {high}")
        return value

    @field_validator("declare", mode="before")
    @classmethod
    def _known(cls, value: Any) -> dict[str, Any]:
        """A mapping, or NAME=VALUE items."""
        from wmo_distill.declare import parse_declare

        if isinstance(value, Mapping):
            value = [f"{name}={one}" for name, one in value.items()]
        return parse_declare(value)

    @field_serializer("reward_range")
    def _finite(self, value: tuple[float, float]) -> list[float | str]:
        """JSON has no infinity; pydantic reads the word as the number."""
        return [x if math.isfinite(x) else str(x) for x in value]

    @field_serializer("tokenizer")
    def _contents(self, value: Path | None) -> str | None:
        """A tokenizer is the same wherever its file is."""
        from wmo_distill.files import file_sha256

        return None if value is None else file_sha256(value)[0]

    @field_serializer("sinks")
    def _whether(self, value: Path | None) -> bool:
        """Sinks are the same wherever they are."""
        return value is not None


class RegradeOptions(Options):
    """What is not given stays as it was when the dataset was built."""

    reward_key: str | None = option(None, "Name of the verifier's reward to use.", "KEY")
    reward_range: tuple[float, float] | None = option(
        None, "A reward outside of this range is null, with an issue.", "LO HI"
    )
    pass_at: float | None = option(None, "Count reward >= X as passed.", "X", allow_inf_nan=False)
    cells: Path | None = option(
        None, "Your own grades, as for `build`; trials without one lose their rows.", "FILE"
    )
    fresh: bool = option(False, "Replace what OUT2 holds.")

    def over(self, before: BuildOptions) -> BuildOptions:
        """The options of a build that grades in this way, all else as `before`."""
        names = ("reward_key", "reward_range", "pass_at")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        return BuildOptions.of(before, **given)
