"""Manifests: what a directory consists of. Sealed, and written last"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wmo_distill.errors import UsageError
from wmo_distill.files import Absent, open_file, parse_json, whole_file
from wmo_distill.outputs.faults import (
    Fault,
    Listed,
    damage,
    differences,
    first_faults,
    is_readable,
    stray_files,
)
from wmo_distill.outputs.metrics import METRICS
from wmo_distill.outputs.stored import Stored
from wmo_distill.progress import Listener, Progress

MANIFEST = "manifest.json"
TOOL = "wmo-distill"
SEAL = "seal"
MOST_BYTES = 256_000_000
"""A manifest of a million trials with cells has less than half."""
STAGING = ".staging-"
"""What the names of directories begin with in which the next state of a directory is written."""


@cache
def tool_version() -> str:
    try:
        return version(TOOL)
    except PackageNotFoundError:
        return "unknown"


class Model(BaseModel):
    """What a manifest consists of."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AnyManifest(Model):
    """What every manifest can tell."""

    def files(self) -> list[str]:
        """The parts, relative to the directory."""
        raise NotImplementedError


class PartFile(Model):
    """One file of rows."""

    file: str = Field(pattern=r"^([^./\\][^/\\]*/)?[^./\\][^/\\]*$")
    """POSIX path relative to the directory."""
    rows: int = Field(ge=0)
    bytes: int = Field(ge=0)
    sha256: str
    footer: str | None = None
    """SHA-256 of a Parquet file's footer; None for another file."""


class OutputManifest(AnyManifest):
    """The manifest of what was made of a dataset."""

    kind: str
    schema_version: int
    tool_version: str = Field(default_factory=tool_version)
    parts: list[PartFile]

    def files(self) -> list[str]:
        return [part.file for part in self.parts]


M = TypeVar("M", bound=AnyManifest)
P = TypeVar("P", bound=Listed)


@dataclass(frozen=True, slots=True)
class Kind(Generic[M]):
    """A kind of directory: what its manifest says of itself, and which files are its own."""

    noun: str
    """As in "the manifest of ..."."""
    command: str
    model: type[M]
    mark: tuple[str, str]
    """The key and the value by which a manifest is known to be of this kind."""
    version: int
    folder: str
    """Where the parts are; empty for the directory itself."""
    stem: str
    """What the names of parts begin with: STEM-00000.parquet."""
    fixed: tuple[str, ...] = ()
    """Files that each commit replaces under the same name."""
    again: str = "run it again with --fresh"
    """What helps where files are damaged and no copy is at hand."""

    def number(self, name: str) -> int:
        """The number of a part by its name; -1 for any other file."""
        match = re.fullmatch(rf"{self.stem}-(\d{{5,}})\.(parquet|jsonl)", name)
        return int(match[1]) if match else -1

    def write(self, out: Path, manifest: M) -> None:
        """Put the manifest in its place, whole, with a seal over all that it says."""
        value = manifest.model_dump(mode="json")
        text = json.dumps({**value, SEAL: seal_of(value)}, indent=2, ensure_ascii=False)
        with whole_file(out / MANIFEST) as temporary:
            temporary.write_bytes(text.encode("utf-8", "backslashreplace") + b"\n")

    def read(self, out: Path, *, sealed: bool = True) -> M:
        """The manifest of `out`; UsageError where there is none that this version can read.

        Without `sealed` one whose seal is broken is read too.
        """
        value = self._value(out)
        found = value.pop(SEAL, None)
        try:
            manifest = self.model.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise UsageError(
                f"{out / MANIFEST}: {where}: {first['msg']}; expected it as it was written, "
                f"found {first['input']!r:.80}; restore the file, or {self.again}"
            ) from None
        if sealed and found != (expected := seal_of(value)):
            raise UsageError(
                f"{out / MANIFEST}: expected the seal {expected[:16]}… of what it says, "
                f"found {str(found)[:16]}…; restore the file, or {self.again}"
            )
        return manifest

    def faults(
        self,
        out: Path,
        parts: Sequence[P],
        of_rows: Callable[[P], Iterable[Fault]],
        progress: Listener | None = None,
    ) -> Iterator[Fault]:
        """Damaged and stray files, a broken seal, and what `of_rows` finds in each part."""
        size, read, faulty = sum(part.bytes for part in parts), 0, 0
        for number, part in enumerate(parts, 1):
            found = damage(out, part)
            if is_readable(out / part.file):
                found = [*first_faults(part.file, chain(found, of_rows(part)))]
            yield from found
            read, faulty = read + part.bytes, faulty + bool(found)
            if progress is not None:
                progress(
                    Progress(
                        done=number,
                        total=len(parts),
                        unit="files",
                        bytes_done=read,
                        bytes_total=size,
                        outcomes={"sound": number - faulty, "faulty": faulty},
                    )
                )
        yield from stray_files(
            out, self.folder, [MANIFEST, METRICS, *(part.file for part in parts)]
        )
        value = self._value(out)
        seal = value.pop(SEAL, None)
        yield from differences(MANIFEST, [("the seal of what it says,", seal_of(value), seal)])

    def stored(self, out: Path, part: Listed, schema: pa.Schema) -> Stored:
        """A part to read from."""
        return Stored(out / part.file, schema, self.again, part.rows, part.bytes, part.footer)

    def _value(self, out: Path) -> dict[str, Any]:
        """The values of a manifest of this kind and version."""
        file = out / MANIFEST
        named = f"name the directory that `{TOOL} {self.command}` wrote"
        try:
            value = parse_json(_bytes(file))
        except OSError as error:
            begun = any(out.glob(f"{STAGING}*"))
            found = "what an unfinished run left" if begun else error.strerror
            raise UsageError(
                f"{file}: expected the manifest of {self.noun}, found: {found}; {named}, or run it"
            ) from None
        if isinstance(value, Absent):
            raise UsageError(
                f"{file}: expected JSON, found bytes that are none; "
                f"restore the file, or {self.again}"
            )
        if not isinstance(value, dict) or value.get(self.mark[0]) != self.mark[1]:
            raise UsageError(
                f"{file}: expected the manifest of {self.noun}, found {_named_kind(value)}; {named}"
            )
        if value.get("schema_version") != self.version:
            raise UsageError(
                f"{file}: expected schema version {self.version}, found "
                f"{value.get('schema_version')!r} (written by {TOOL} {value.get('tool_version')}); "
                f"use that version, or {self.again}"
            )
        return value


def kind_of(out: Path) -> str | None:
    """The kind that a directory's manifest states, None where it states none."""
    value = stated(out)
    kind = value.get("kind") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else None


def stated(out: Path) -> Any | Absent:
    """What a manifest says, whoever wrote it."""
    try:
        return parse_json(_bytes(out / MANIFEST))
    except OSError:
        return Absent.MISSING


def _bytes(manifest: Path) -> bytes:
    with open_file(manifest) as file:
        return file.read(MOST_BYTES)


def _named_kind(value: Any) -> str:
    if isinstance(value, dict):
        if str(value.get("kind")).startswith(TOOL):
            return f"that of {value['kind']}"
        if value.get("tool") == TOOL:
            return "that of a dataset"
    return "a file of something else"


def seal_of(value: dict[str, Any]) -> str:
    """SHA-256 over a manifest's values, whatever the order and the spacing of its text."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
