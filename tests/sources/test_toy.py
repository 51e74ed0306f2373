"""A source in one file: JSON lines, one call a line. Nothing else of the package is touched."""

import json
import shutil
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from wmo_distill import (
    BuildOptions,
    build,
    build_datum_shards,
    export_datums,
    iter_records,
    verify,
)
from wmo_distill.files import Absent, FilesState, TrialFiles, parse_json
from wmo_distill.records import SpanSource, StopReason
from wmo_distill.sources import registry
from wmo_distill.sources.base import NOTHING, Folder, FoundTrial, Here
from wmo_distill.sources.evidence import (
    EndingEvidence,
    Evidence,
    GradeEvidence,
    Identity,
    SamplingEvidence,
)
from wmo_distill.sources.finding import discover
from wmo_distill.sources.recorded import Call
from wmo_distill.sources.values import group_id
from wmo_distill.tokenjson import outline
from wmo_distill.tokenjson.rows import id_row, logprob_row, shared_rows

MARK = '{"toy": 1'


class Toy:
    """`*.toy.jsonl`: a line is `{"toy": 1, "episode": …, "prompt": […], "sampled": […], …}`."""

    kind = "toy"

    def find(self, folder: Folder) -> Here:
        names = sorted(name for name in folder.files if name.endswith(".toy.jsonl"))
        files = [name for name in names if self._is_toy(folder.path / name)]
        found = [
            FoundTrial(
                source=self.kind,
                root=folder.path / name,
                path=f"{folder.below(name)}#{episode}",
                trial_id=episode,
                trial_name=episode,
                locator=episode,
            )
            for name in files
            for episode in self._episodes(folder.path / name)
        ]
        return Here(tuple(found)) if found else NOTHING

    def state(self, found: FoundTrial, sinks: Path | None) -> FilesState:
        state = TrialFiles(found.root.parent).stat(found.root.name)
        return FilesState(0, 0) if state is None else FilesState(state.st_size, state.st_mtime_ns)

    def read(self, found: FoundTrial, options: BuildOptions) -> Sequence[Evidence]:
        lines = self._episodes(found.root)[str(found.locator)]
        prompts = shared_rows([id_row(line.get("prompt")) for line in lines])
        calls = [
            Call(
                index,
                prompt,
                id_row(line.get("sampled")),
                logprob_row(line.get("logprobs")),
                finish_reason=line.get("finish"),
                versions=((line["version"], 0),) if "version" in line else None,
            )
            for index, (line, prompt) in enumerate(zip(lines, prompts, strict=True))
        ]
        reward = {"reward": lines[-1]["reward"]} if "reward" in lines[-1] else {}
        return [
            Evidence(
                identity=Identity(
                    trial_id=found.trial_id,
                    trial_name=found.trial_name,
                    artifact_dir=found.path,
                    task_id="toy",
                    group_id=group_id(["toy"]),
                ),
                calls=calls,
                call_source=SpanSource.CAPTURE,
                sampling=SamplingEvidence(asked={"logprob_mode": "raw"}),
                ending=EndingEvidence(stated=StopReason.SUBMITTED),
                grade=GradeEvidence(rewards=reward),
            )
        ]

    def _is_toy(self, path: Path) -> bool:
        data = TrialFiles(path.parent).read(path.name, len(MARK))
        return data == MARK.encode()

    def _episodes(self, path: Path) -> dict[str, list[dict]]:  # type: ignore[type-arg]
        data = TrialFiles(path.parent).read(path.name)
        episodes: dict[str, list[dict]] = defaultdict(list)  # type: ignore[type-arg]
        for line in b"" if isinstance(data, Absent) else data.splitlines():
            value = parse_json(line)
            if isinstance(value, dict):
                episodes[str(value.get("episode"))].append(value)
        return episodes


def write(path: Path, rewards: Sequence[float]) -> None:
    lines = []
    for number, reward in enumerate(rewards):
        prompt = [7, 8, 9]
        for turn in range(3):
            sampled = [10 + number, 11 + turn, 2]
            lines.append(
                {
                    "toy": 1, "episode": f"e{number}", "prompt": prompt, "sampled": sampled,
                    "logprobs": [-0.5, -0.25, -0.125], "finish": "stop", "version": "v1",
                    **({"reward": reward} if turn == 2 else {}),
                }
            )  # fmt: skip
            prompt = [*prompt, *sampled, 3, 8, 9]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(registry.SOURCES, "toy", f"{__name__}:Toy")
    write(tmp_path / "runs" / "one.toy.jsonl", [1.0, 0.0, 1.0])
    return tmp_path


def test_a_toy_source_builds_verifies_and_exports(toys: Path) -> None:
    out = toys / "out"
    summary = build([toys / "runs"], out, workers=1)
    assert (summary.found, summary.written, summary.calls) == (3, 3, 9)
    assert verify(out) == []
    records = list(iter_records(out))
    assert [(r.format, r.span_source, r.reward) for r in records] == [
        ("toy", "capture", 1.0), ("toy", "capture", 0.0), ("toy", "capture", 1.0)
    ]  # fmt: skip
    span = records[1].spans[2]
    assert span.prompt_token_ids.tolist()[:9] == [7, 8, 9, 11, 11, 2, 3, 8, 9]
    assert span.versions == (("v1", 0),)
    datums, exported = toys / "datums", toys / "verl"
    built = build_datum_shards(out, datums)
    assert built.stats.loss_tokens == 27
    assert export_datums(datums, exported, "verl").exported == 3


def test_with_other_formats_in_one_directory(toys: Path) -> None:
    from shutil import copytree

    fixture = Path(__file__).parents[2] / "fixtures/trials/01-solved"
    copytree(fixture, toys / "runs" / "harbor")
    out = toys / "out"
    assert build([toys / "runs"], out, workers=1).written == 4
    assert {record.format for record in iter_records(out)} == {"harbor", "toy"}
    assert build([toys / "runs"], out, workers=1).read == 0


def test_a_source_sees_the_directories_before_the_one_it_is_loaded_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials of Harbor alone load no other source; any other file shows it every directory."""
    seen: list[str] = []

    class Watching(Toy):
        def find(self, folder: Folder) -> Here:
            seen.append(folder.relative)
            return super().find(folder)

    monkeypatch.setattr(f"{__name__}.Toy", Watching)
    monkeypatch.setitem(registry.SOURCES, "toy", f"{__name__}:Toy")
    fixtures = Path(__file__).parents[2] / "fixtures/trials"
    job = next(fixtures.glob("*/jobs/*"))
    shutil.copytree(job, tmp_path / "runs/z/job")
    assert len(discover([tmp_path / "runs"]).trials) == 1
    assert seen == []
    write(tmp_path / "runs/a/b.toy.jsonl", [1.0])
    assert len(discover([tmp_path / "runs"]).trials) == 2
    assert sorted(seen) == ["runs", "runs/a", "runs/z", "runs/z/job"]


def test_any_name_of_a_group_will_do(toys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It becomes an id; without a name each trial is a group of its own."""
    groups = {}
    for name in ("t", "u", "", "0123456789abcdef"):
        monkeypatch.setattr(f"{__name__}.group_id", lambda _, name=name: name)
        out = toys / f"out-{name}"
        build([toys / "runs"], out, workers=1)
        assert verify(out) == []
        groups[name] = [r.group_id for r in iter_records(out)]
    assert groups["0123456789abcdef"] == ["0123456789abcdef"] * 3
    assert len({*groups["t"], *groups["u"]}) == 2
    assert len(set(groups[""])) == 3


def test_the_first_bytes_of_a_file_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever sources look at the keys of its first object."""
    for name in ("a.json", "b.jsonl", "c.txt"):
        (tmp_path / name).write_text('{"id": 1}')
    asked: list[str] = []
    real = outline.first_object

    def counted(files: TrialFiles, name: str) -> Any:
        asked.append(name)
        return real(files, name)

    monkeypatch.setattr(outline, "first_object", counted)
    assert not discover([tmp_path]).trials
    assert sorted(asked) == ["a.json", "b.jsonl"]
