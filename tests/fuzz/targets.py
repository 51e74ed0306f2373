"""What is fuzzed: each target has seeds, and a check that raises where an invariant breaks.

An input is one line that names the file whose place it takes, and that file's content.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.fuzz.seeds import chat_with_extras, files_of, harbor_job
from tests.fuzz.single import answers, document, small_files
from tests.fuzz.trials import Bundle, cells
from tests.fuzz.written import manifests

Check = Callable[[bytes], None]
Places = dict[str, tuple[bytes, Check]]
"""Contents by the name of their place, each with what checks another content there."""


@dataclass(frozen=True)
class Target:
    """Something that reads what others wrote."""

    share: int
    """Of the executions of all targets together, in percent."""
    places: Callable[[Path], Places]
    """Made in an empty directory of its own."""

    def begin(self, folder: Path) -> tuple[list[bytes], Check]:
        """(seeds, check): a check takes any bytes."""
        places = self.places(folder)

        def check(data: bytes) -> None:
            name, _, content = data.partition(b"\n")
            place = places.get(name.decode("latin-1"))
            if place is not None:
                place[1](content)

        return [name.encode("latin-1") + b"\n" + data for name, (data, _) in places.items()], check


def _trials(*runs: str, whole: bool = True) -> Callable[[Path], Places]:
    """Runs of fixtures/, the files of each in turn replaced."""

    def places(folder: Path) -> Places:
        found: Places = {}
        for run in runs:
            found |= _of_bundle(run, files_of(run), folder / run, whole=whole)
        return found

    return places


def _of_bundle(run: str, files: Mapping[str, bytes], folder: Path, *, whole: bool = True) -> Places:
    """Each file, and of a database also each text that holds JSON."""
    bundle = Bundle(files, folder, whole)
    found: Places = {}
    for name, data in files.items():
        if not name.endswith("-shm"):
            found[f"{run}/{name}"] = data, partial(bundle.check, name)
    for name in bundle.stores:
        bundle.check(name, files[name])
        for cell, text in cells(folder / name):
            at = f"{run}/{name}/{cell.table}.{cell.column}.{cell.rowid}"
            found[at] = text, partial(bundle.check_cell, name, cell)
    return found


def _harbor(folder: Path) -> Places:
    found: Places = {}
    for trial in ("01-solved", "11e-multistep-step-timeout"):
        found |= _of_bundle(trial, harbor_job(trial), folder / trial)
    return found


def _documents(form: str) -> Callable[[Path], Places]:
    """Results or trajectories, as documents alone."""

    def places(folder: Path) -> Places:
        check = document(form, folder / "documents")
        trials = ("01-solved", "11e-multistep-step-timeout", "06b-summarize-reactive-context-error")
        files = {t: harbor_job(t) for t in trials}
        seeds = {
            f"{trial}/{number}": data
            for trial in trials
            for number, (name, data) in enumerate(sorted(files[trial].items()))
            if name.rpartition("/")[2].startswith(form) and name.count("/") > 1
        }
        if form == "result":
            seeds["extras"] = chat_with_extras()
        return {name: (data, check) for name, data in seeds.items()}

    return places


TARGETS: dict[str, Target] = {
    "result": Target(20, _documents("result")),
    "trajectory": Target(16, _documents("trajectory")),
    "answers": Target(24, lambda folder: answers()),
    "small": Target(29, small_files),
    "harbor": Target(2, _harbor),
    "sink": Target(2, _trials("cases/sink_ok")),
    "verifiers": Target(
        1,
        _trials(
            "recorders/verifiers/v0-errors",
            "recorders/verifiers/0.2.1-moe_ascii",
            "recorders/verifiers/0.4.1.dev86-dropped",
            whole=False,
        ),
    ),
    "tinker": Target(
        1,
        _trials(
            "recorders/tinker-capture/jsonl-single", "recorders/tinker-capture/store-nullbatch"
        ),
    ),
    "nemo_gym": Target(
        1,
        _trials(
            "recorders/nemo-gym/single", "recorders/nemo-gym/experts", "recorders/nemo-gym/torn"
        ),
    ),
    "rllm": Target(1, _trials("recorders/rllm-gateway/git-failed")),
    "openenv": Target(
        1,
        _trials(
            "recorders/openenv-capture/single",
            "recorders/openenv-capture/eval",
            "recorders/openenv-capture/nan",
            whole=False,
        ),
    ),
    "agentlightning": Target(1, _trials("recorders/agentlightning-events/version")),
    "manifests": Target(1, manifests),
}
