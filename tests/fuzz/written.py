"""Manifests of what we write, read back after someone else had them in hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import sealed
from wmo_distill.datums.manifest import DATUMS
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.datums.verify import verify_datums
from wmo_distill.errors import DistillError
from wmo_distill.exporters.files import EXPORT
from wmo_distill.exporters.run import export_datums
from wmo_distill.exporters.verify import verify_export
from wmo_distill.options import BuildOptions
from wmo_distill.outputs.faults import Fault
from wmo_distill.outputs.manifest import MANIFEST, Kind
from wmo_distill.pipeline.build import build
from wmo_distill.pipeline.dataset import open_dataset
from wmo_distill.scorers.cache import SCORES, ScoreCache
from wmo_distill.scorers.verify import verify_scores
from wmo_distill.shards.manifest import DATASET
from wmo_distill.shards.verify import verify

Check = Callable[[bytes], None]
Verify = Callable[[Path], list[Fault]]


def manifests(folder: Path) -> dict[str, tuple[bytes, Check]]:
    """The manifest of each kind, with its check."""
    made = outputs(folder)
    return {
        name: ((out / MANIFEST).read_bytes(), _check(kind, verify_it, out))
        for name, (kind, verify_it, out) in made.items()
    }


def outputs(folder: Path) -> dict[str, tuple[Kind[Any], Verify, Path]]:
    """One directory of each kind that we write."""
    from tests.fuzz.seeds import files_of
    from wmo_distill.datums.dataset import iter_datums
    from wmo_distill.scorers.scorer import Score

    for name, data in files_of("cases/sink_ok/trials").items():
        (folder / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "in" / name).write_bytes(data)
    build([folder / "in"], folder / "shards", workers=1)
    build_datum_shards(folder / "shards", folder / "datums")
    export_datums(folder / "datums", folder / "export", "tinker-sft")
    scores = ScoreCache(folder / "scores")
    for row in iter_datums(folder / "datums"):
        logprobs = row.datum.sampled_logprobs.copy()
        logprobs[:1] = float("nan")
        scores.add("t", [(row.datum_id, Score(logprobs), 0)])
    return {
        "dataset": (DATASET, verify, folder / "shards"),
        "datums": (DATUMS, verify_datums, folder / "datums"),
        "export": (EXPORT, verify_export, folder / "export"),
        "scores": (SCORES, verify_scores, folder / "scores"),
    }


def _check(kind: Kind[Any], verify_it: Verify, out: Path) -> Check:
    sound = (out / MANIFEST).read_bytes()
    said = json.loads(sound)

    def check(data: bytes) -> None:
        """Whatever is in the manifest is an error of ours or a fault, sealed or not."""
        (out / MANIFEST).write_bytes(data)
        try:
            read(data)
        finally:
            (out / MANIFEST).write_bytes(sound)

    def read(data: bytes) -> None:
        try:
            kind.read(out)
            found = json.loads(data)
            other = found[sealed.SEAL] != said[sealed.SEAL]
            assert other or found == said, "another manifest under the old seal"
        except DistillError:
            pass
        try:
            value = json.loads(data)
            value.pop(sealed.SEAL, None)
            sealed.write(out, value)
        except (ValueError, AttributeError, TypeError, RecursionError):
            return
        try:
            verify_it(out)
            if kind is DATASET:
                open_dataset(out, BuildOptions())
        except DistillError:
            pass

    return check
