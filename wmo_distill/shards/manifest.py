"""The manifest: what a dataset consists of. It is written last; without it there is no dataset."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import Field

from wmo_distill.outputs.manifest import TOOL, AnyManifest, Kind, Model, tool_version
from wmo_distill.records import TrialRecord
from wmo_distill.shards.schema import LEDGER_FILE, PARTS_DIR, SCHEMA_VERSION

_PART_NAME = rf"^{PARTS_DIR}/[^/\\]+\.parquet$"


class Tokens(Model):
    """Sums of the count columns of the same names."""

    input: int = 0
    output: int = 0
    total: int = 0
    prompt: int = 0
    subagent: int = 0


class Totals(Model):
    """Sums over rows; `calls` covers all segments, `calls_dropped` the issues that drop one."""

    records: int = 0
    calls: int = 0
    calls_dropped: dict[str, int] = Field(default_factory=dict)
    tokens: Tokens = Tokens()
    issues: dict[str, int] = Field(default_factory=dict)
    stop_reasons: dict[str, int] = Field(default_factory=dict)

    @classmethod
    def of(cls, record: TrialRecord) -> "Totals":
        """The totals of one row."""
        counts = record.counts
        issues: dict[str, int] = {}
        dropped: dict[str, int] = {}
        for issue in record.issues:
            issues[issue.value] = issues.get(issue.value, 0) + 1
            if issue.drops_call:
                dropped[issue.value] = dropped.get(issue.value, 0) + 1
        return cls(
            records=1,
            calls=len(record.spans),
            calls_dropped=dropped,
            tokens=Tokens(
                input=counts.input_tokens,
                output=counts.output_tokens,
                total=counts.total_tokens,
                prompt=counts.prompt_tokens,
                subagent=counts.subagent_tokens,
            ),
            issues=issues,
            stop_reasons={str(record.stop_reason or "unknown"): 1},
        )

    @classmethod
    def sum(cls, parts: Iterable["Totals"]) -> "Totals":
        """Added up, keys sorted."""
        total: dict[str, Any] = {}
        for part in parts:
            _add(total, part.model_dump())
        return cls.model_validate(_sorted(total))


def _add(total: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict):
            _add(total.setdefault(key, {}), value)
        else:
            total[key] = total.get(key, 0) + value


def _sorted(value: dict[str, Any]) -> dict[str, Any]:
    return {k: _sorted(v) if isinstance(v, dict) else v for k, v in sorted(value.items())}


class PartInfo(Model):
    """One file of rows."""

    file: str = Field(pattern=_PART_NAME)
    """POSIX path relative to the dataset."""
    rows: int = Field(ge=0)
    tokens: int = Field(ge=0)
    """Ids stored: prompt suffixes and sampled ids of all segments."""
    bytes: int = Field(ge=0)
    sha256: str
    footer: str | None = None
    """SHA-256 of its footer."""
    row_sum: str = Field(pattern=r"^[0-9a-f]{64}$")
    """The rows' digests added modulo 2^256, so that sums of parts add up in any cut and order."""
    totals: Totals = Totals()


class LedgerTotals(Totals):
    """`found == written + skipped` in trials; `calls_found == calls + calls_dropped`."""

    found: int = 0
    written: int = 0
    skipped: dict[str, int] = Field(default_factory=dict)
    removed: int = 0
    calls_found: int = 0


class LedgerInfo(Model):
    """The file of the ledger."""

    rows: int = Field(ge=0)
    bytes: int = Field(ge=0)
    sha256: str


class Regrade(Model):
    """The dataset that a regrade was made from: the hash of its rows, and how it was graded."""

    dataset_hash: str
    options: dict[str, Any]


class Manifest(AnyManifest):
    """What a dataset consists of; holds no time of the build, worker count or duration."""

    tool: str = TOOL
    tool_version: str = Field(default_factory=tool_version)
    schema_version: int = SCHEMA_VERSION
    parent: str
    """Absolute; `artifact_dir` and the ledger's `path` are relative to it."""
    inputs: list[str]
    """The PATHs of the builds, relative to the parent."""
    options: dict[str, Any]
    parts: list[PartInfo] = Field(min_length=1)
    ledger: LedgerInfo
    totals: LedgerTotals
    slow_reads: int = 0
    regrades: list[Regrade] = Field(default_factory=list)
    """The oldest first; empty for a dataset that was only built."""
    dataset_hash: str

    def files(self) -> list[str]:
        return [part.file for part in self.parts]


DATASET = Kind(
    noun="a dataset",
    command="build",
    model=Manifest,
    mark=("tool", TOOL),
    version=SCHEMA_VERSION,
    folder=PARTS_DIR,
    stem="part",
    fixed=(LEDGER_FILE,),
    again=f"build again with `{TOOL} build --fresh`",
)


def dataset_hash(parts: Iterable[PartInfo]) -> str:
    """SHA-256 over all row contents, the same in any order and any cut into parts."""
    rows = total = 0
    for part in parts:
        rows += part.rows
        total += int(part.row_sum, 16)
    return hashlib.sha256(f"{SCHEMA_VERSION} {rows} {total % 2**256:064x}".encode()).hexdigest()


def read_manifest(out: Path) -> Manifest:
    """The manifest of a dataset; UsageError where there is none that this version can read."""
    return DATASET.read(out)
