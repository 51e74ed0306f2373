"""The manifest of datum shards: what they were made from and with, and which files they are."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wmo_distill.datums.advantages import AdvantageStats
from wmo_distill.datums.datum import DatumStats
from wmo_distill.datums.options import DatumOptions
from wmo_distill.errors import UsageError
from wmo_distill.files import Absent, parse_json
from wmo_distill.outputs import MANIFEST
from wmo_distill.shards.manifest import tool_version

KIND = "wmo-distill datums"
PARTS_DIR = "parts"
SCHEMA_VERSION = 2
_PART_NAME = r"^parts/[^/\\]+\.parquet$"


class DatumSummary(BaseModel):
    """The funnel from records to datums, and what was lost on the way; tokens are sampled ones.

    records == filtered + without_tokens + dropped_groups + the records that `stats` speaks of.
    """

    model_config = ConfigDict(frozen=True)

    records: int = 0
    filtered: int = 0
    without_tokens: int = 0
    dropped_groups: int = 0
    with_logprobs: int = 0
    without_advantage: int = 0
    """Trained records to which rewards give none."""
    small_groups: int = 0
    """Of those, measured ones whose group has too few measured members for the baseline."""
    unknown_returns: int = 0
    """Trained records whose step is measured and whose return is not: a later step has no reward
    that counts, or is missing."""
    expansion: float | None = None
    parts: list[str] = Field(default_factory=list)
    stats: DatumStats = DatumStats()
    teacher: AdvantageStats | None = None
    """What the teacher's scores gave; its mismatches are datums without advantages."""
    rescored: int | None = None
    """Datums with the student's re-scored log-probabilities; None where none were asked for."""


class DatumManifest(BaseModel):
    """Written last: without it there are no datums."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str = KIND
    schema_version: int = SCHEMA_VERSION
    tool_version: str = Field(default_factory=tool_version)
    source: str
    """The hash of the dataset that the datums were made from."""
    options: DatumOptions
    parts: list[Annotated[str, Field(pattern=_PART_NAME)]] = Field(default_factory=list)
    sha256: dict[str, str] = Field(default_factory=dict)
    """Of each part, in hex."""
    summary: DatumSummary = DatumSummary()

    def part_paths(self, datums: Path) -> list[Path]:
        """The files of the parts, in order."""
        return [datums / name for name in self.parts]


def read_datum_manifest(datums: Path | str) -> DatumManifest:
    """The manifest of datum shards; UsageError where there is none that this version can read."""
    file = Path(datums) / MANIFEST
    try:
        value = parse_json(file.read_bytes())
    except OSError as error:
        raise UsageError(
            f"{file}: expected the manifest of datums, found: {error.strerror}; "
            "name the directory that `wmo-distill datums` was given with -o"
        ) from None
    if isinstance(value, Absent) or not isinstance(value, dict) or value.get("kind") != KIND:
        raise UsageError(
            f"{file}: expected the manifest of datums, found something else; name the directory "
            "that `wmo-distill datums` was given with -o, not the dataset that it read"
        )
    if value.get("schema_version") != SCHEMA_VERSION:
        raise UsageError(
            f"{file}: expected schema version {SCHEMA_VERSION}, found "
            f"{value.get('schema_version')!r}; make the datums again"
        )
    try:
        return DatumManifest.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"{file}: {where}: {first['msg']}; expected it as it was written; make the datums again"
        ) from None
