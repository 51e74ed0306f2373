"""Every command that writes a directory, with what it starts from and what it has to give."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from tests.outputs.works import VERIFY
from tests.pipeline.pipeline_trials import make_job, make_trial, touch
from tests.proof.chats import chat, dataset, record
from tests.proof.lm import LanguageModel
from tests.proof.server import serve
from tests.torture.strace import Call, Commands, Done, entries
from wmo_distill.datums.options import Baseline
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.errors import UsageError
from wmo_distill.exporters.registry import TARGETS
from wmo_distill.outputs.faults import Fault
from wmo_distill.outputs.manifest import MANIFEST, STAGING
from wmo_distill.scorers.cache import SCORES
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.shards.verify import verify

TEACHER = LanguageModel(seed=1)
Entries = Mapping[str, bytes | None]


@dataclass(frozen=True)
class Case:
    """A command that writes `OUT`, and how to check what it wrote."""

    name: str
    arguments: Sequence[str]
    place: Path
    verify: Callable[[Path], list[Fault]]
    before: Sequence[str] | None = None
    """The command that wrote what is there; None where there is nothing."""
    prepare: Callable[[], object] = field(default=lambda: None, repr=False)
    """What to do between the two."""
    grows: bool = False
    """Whether it commits several times, each time a good state."""
    contents: Callable[[Path], object] | None = None
    """What it wrote, in whichever parts it is; None where the bytes are always the same."""
    states: list[Entries] = field(default_factory=list, repr=False)
    """What is there before, after one undisturbed run, and after two."""
    calls: list[Call] = field(default_factory=list, repr=False)
    """Where it changes the file system."""

    def to(self, out: Path, arguments: Sequence[str] | None = None) -> list[str]:
        """The command's arguments with `out` as its OUT."""
        return [str(out) if one == "OUT" else one for one in arguments or self.arguments]

    def fresh(self, out: Path) -> Path:
        """What the command starts from, as `out`."""
        shutil.rmtree(out, ignore_errors=True)
        if self.before is not None:
            shutil.copytree(self.place / "start", out)
        return out

    def learn(self, commands: Commands) -> None:
        """Where the command changes files, and what undisturbed runs give."""
        if self.states:
            return
        self.place.mkdir(parents=True)
        start, out = self.place / "start", self.place / "out"
        if self.before is not None:
            _good(commands.run(self.to(start, self.before)))
            shutil.copytree(start, out)
        self.prepare()
        self.states.append(entries(start))
        for _ in range(2):
            _good(commands.run(self.to(out)))
            self.states.append(entries(out))
        traced = self.fresh(self.place / "traced")
        self.calls.extend(commands.changes(self.to(traced), traced))

    def reader_fault(self, out: Path) -> str | None:
        """What is wrong with what a reader sees now: it has to be the old state or the new one."""
        if not (out / MANIFEST).exists():
            return None if self.before is None else "the manifest is gone"
        manifest = (out / MANIFEST).read_bytes()
        if not self.grows and manifest not in [state.get(MANIFEST) for state in self.states]:
            return "the manifest is neither the old one nor the new one"
        try:
            found = [str(fault) for fault in self.verify(out)]
        except UsageError as error:
            found = [str(error)]
        # Files that no manifest names are removed by the next run; and between the last two steps
        # of a commit the ledger is the new one already.
        passing = ["only parts that the manifest names"]
        if any(out.glob(f"{STAGING}*/{MANIFEST}")):
            passing += ["ledger.parquet", "no unfinished commit"]
        faults = [text for text in found if not any(words in text for words in passing)]
        return "; ".join(faults[:2]) or None

    def end_fault(self, commands: Commands, out: Path, *, bytewise: bool) -> str | None:
        """What is wrong after the same command ran again: as if nothing had been.

        With `bytewise` to the byte; else the contents, in parts that may be cut elsewhere.
        """
        done = commands.run(self.to(out))
        if done.code != 0:
            return f"run again: exit {done.code}: {done.said[-300:]}"
        found = entries(out)
        if found in self.states[1:] or (not bytewise and self._same_contents(out, found)):
            return None
        names = {name for name, _ in found.items() ^ self.states[1].items()}
        return f"run again: other contents: {sorted(names)[:5]}"

    def _same_contents(self, out: Path, found: Entries) -> bool:
        """Whether it holds what an undisturbed run gives, and no file that no manifest names."""
        hidden = [name for name in found if name.rpartition("/")[2].startswith(".")]
        if self.contents is None or hidden or self.verify(out):
            return False
        return self.contents(out) == self.contents(self.place / "out")


def rows(cache: Path) -> list[str]:
    """The scores of a cache, in one order whatever parts they are in."""
    paths = [cache / file for file in SCORES.read(cache).files()]
    return sorted(str(row) for path in paths for row in pq.read_table(path).to_pylist())


def _good(done: Done) -> None:
    assert done.code == 0, done.said


@contextmanager
def cases(place: Path) -> Iterator[list[Case]]:
    """All commands that write, on small inputs; while it is open, a teacher serves `score`."""
    with ExitStack() as stack:
        found = [*_builds(place), *_datums(place, stack), *_exports(place)]
        words = [case.arguments[0] for case in found]
        order = sorted(range(len(found)), key=lambda n: words[:n].count(words[n]))
        yield [found[n] for n in order]  # one of each command first


def _builds(place: Path) -> Iterator[Case]:
    for name, more in (("first", []), ("second", []), ("--fresh", ["--fresh"])):
        for workers in (1, 2):
            case = place / f"build-{name.strip('-')}-{workers}"
            job = make_job(case.parent / f"{case.name}-job", *(f"t{i}" for i in range(7)))

            def change(job: Path = job) -> None:
                touch(job / "t2" / "result.json")
                shutil.rmtree(job / "t5")
                make_trial(job / "t8")

            build = ["build", str(job), "-o", "OUT", "--quiet", "--workers", str(workers)]
            yield Case(
                f"build {name}, {workers} workers" if workers > 1 else f"build {name}",
                [*build, *more],
                case,
                verify,
                None if name == "first" else build,
                change,
                contents=lambda out: read_manifest(out).dataset_hash,
            )


def _datums(place: Path, stack: ExitStack) -> Iterator[Case]:
    rng = np.random.default_rng(5)
    chats = [chat(LanguageModel(), rng, breaks=n % 2 == 0) for n in range(12)]
    shards = dataset(place / "shards", [record(turns, n) for n, turns in enumerate(chats)])
    datums = place / "datums"
    build_datum_shards(shards, datums, advantages=Baseline.GRPO)
    server = stack.enter_context(serve(TEACHER))
    make = ["datums", str(shards), "-o", "OUT", "--quiet"]
    score = ["score", str(datums), "-c", "OUT", "--scorer", "vllm", "--url", server.url]
    score += ["--model", "t", "--concurrency", "1", "--quiet"]
    for name, before in (("first", None), ("second", make)):
        yield Case(f"datums {name}", make, place / f"datums-{name}", VERIFY["datums"], before)
    for name, before in (("first", None), ("second", [*score, "--teacher", "other"])):
        there = place / f"score-{name}"
        yield Case(
            f"score {name}", score, there, VERIFY["score"], before, grows=True, contents=rows
        )


def _exports(place: Path) -> Iterator[Case]:
    for target in sorted(TARGETS):
        export = ["export", str(place / "datums"), "-o", "OUT", "--to", target, "--quiet"]
        there = place / f"export-{target}"
        yield Case(f"export {target} first", export, there, VERIFY["export"])
        if target.endswith("-sft"):  # JSON lines and Parquet
            there = there.with_name(f"{there.name}-second")
            yield Case(f"export {target} second", export, there, VERIFY["export"], export)
