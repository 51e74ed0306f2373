"""The manifest of datum shards: what they were made from and with, and which files they are."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from wmo_distill.datums.advantages import AdvantageStats
from wmo_distill.datums.datum import DatumStats
from wmo_distill.datums.options import DatumOptions
from wmo_distill.outputs.manifest import Kind, OutputManifest

KIND = "wmo-distill datums"
PARTS_DIR = "parts"
SCHEMA_VERSION = 2


class DatumSummary(BaseModel):
    """The funnel from records to datums, and what was lost on the way; tokens are sampled ones.

    records == filtered + unselected + without_tokens + dropped_groups + the records that `stats`
    counts.
    """

    model_config = ConfigDict(frozen=True)

    records: int = 0
    filtered: int = 0
    """Records that `--only` or `--task` leaves out."""
    unselected: int = 0
    """Other records for which `--where` is not true."""
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


class DatumManifest(OutputManifest):
    """Written last: without it there are no datums."""

    kind: str = KIND
    schema_version: int = SCHEMA_VERSION
    source: str
    """The hash of the dataset that the datums were made from."""
    options: DatumOptions
    summary: DatumSummary = DatumSummary()


DATUMS = Kind(
    noun="datums",
    command="datums",
    model=DatumManifest,
    mark=("kind", KIND),
    version=SCHEMA_VERSION,
    folder=PARTS_DIR,
    stem="datums",
    again="make the datums again with --fresh",
)


def read_datum_manifest(datums: Path | str) -> DatumManifest:
    """The manifest of datum shards; UsageError where there is none that this version can read."""
    return DATUMS.read(Path(datums))
