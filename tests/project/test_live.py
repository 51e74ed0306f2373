"""The live view of a command at work: shown on a terminal alone, and taken away at the end."""

import json
import re
from pathlib import Path

import pytest

from tests.project.conftest import ROOT, Run
from tests.project.terminal import on_terminal
from wmo_distill.progress import Progress
from wmo_distill.report.progress import Memory, Pace, clock, fitting, phrases, top

# The command, which draws at once, and which does not end before it has drawn.
DRAWS = """
import time, wmo_distill.cli.live as live
from wmo_distill.outputs.parts import Parts
live.FIRST_DRAWN = live.DRAWN_EVERY = 0.0
drawn, draw, commit = [], live.Working._draw, Parts.commit
def seen(self):
    draw(self)
    drawn.append(self._live)
live.Working._draw = seen
def waits(self, manifest):
    while not any(drawn): time.sleep(0.01)
    {then}
    commit(self, manifest)
Parts.commit = waits
from wmo_distill.__main__ import main
main()
"""
NEVER = "import os, signal\n" + DRAWS.replace("while not any(drawn): time.sleep(0.01)", "pass")
STOPS = "import os, signal; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)"
LOOK = ROOT / "docs" / "look.md"
# What the screen of a terminal must not get from a name: a title, a clear, other text after a CR.
HOSTILE = "a\x1b]0;owned\x07\x1b[2J\rb\u202ec"


def build(out: Path, jobs: Path, *more: str) -> list[object]:
    return ["build", jobs, "-o", out, *more]


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    for number in range(3):
        trial = tmp_path / "jobs" / f"{number}{HOSTILE}"
        trial.mkdir(parents=True)
        result = {"trial_name": trial.name, "id": str(number), "task_name": HOSTILE}
        (trial / "result.json").write_text(json.dumps(result))
    return tmp_path / "jobs"


@pytest.mark.parametrize("columns", [80, 40, 10])
def test_it_is_drawn_and_taken_away(jobs: Path, tmp_path: Path, columns: int) -> None:
    arguments = build(tmp_path / "out", jobs, "--allow-empty")
    shown = on_terminal(DRAWS.format(then="pass"), arguments, columns=columns)
    assert shown.code == 0, shown.drawn
    assert "3 of 3 trials"[: columns - 1] in shown.drawn
    assert ("written 3" in shown.drawn) == (columns > 9)
    assert "".join(shown.screen.lines) == ""
    assert shown.screen.row == 0
    assert shown.screen.cursor


def test_a_terminal_that_is_not_utf_8(jobs: Path, tmp_path: Path) -> None:
    latin = {"LC_ALL": "C", "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    arguments = build(tmp_path / "out", jobs, "--allow-empty")
    shown = on_terminal(DRAWS.format(then="pass"), arguments, environment=latin)
    assert (shown.code, "".join(shown.screen.lines)) == (0, "")
    assert shown.drawn.isascii()


def test_no_colour(jobs: Path, tmp_path: Path) -> None:
    arguments = build(tmp_path / "out", jobs, "--allow-empty")
    shown = on_terminal(DRAWS.format(then="pass"), arguments, environment={"NO_COLOR": "1"})
    assert "3 of 3 trials" in shown.drawn
    assert not re.search(r"\x1b\[[\d;]+m", shown.drawn)


def test_ctrl_c_leaves_one_line(jobs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shown = on_terminal(DRAWS.format(then=STOPS), build(out, jobs), columns=2000)
    assert shown.code == 130
    (line,) = [line for line in shown.screen.lines if line]
    assert line == f"wmo-distill: stopped by SIGINT: {out} was left as it was; run it again"
    assert shown.screen.cursor


def test_what_is_said_after_it_is_whole(jobs: Path, tmp_path: Path) -> None:
    """A refusal is below no remains of the view."""
    arguments = build(tmp_path / "out", jobs)
    shown = on_terminal(DRAWS.format(then="pass"), arguments, columns=2000)
    assert shown.code == 4
    (line,) = [line for line in shown.screen.lines if line]
    assert line.startswith("wmo-distill: ")


@pytest.mark.parametrize(
    ("more", "environment"),
    [(["--quiet"], {}), ([], {"TERM": "dumb"}), (["--quiet"], {"FORCE_COLOR": "1"})],
)
def test_where_there_is_none(
    jobs: Path, tmp_path: Path, more: list[str], environment: dict[str, str]
) -> None:
    arguments = build(tmp_path / "out", jobs, "--allow-empty", *more)
    shown = on_terminal(NEVER.format(then="pass"), arguments, environment=environment)
    assert (shown.code, shown.drawn) == (0, "")


def test_a_log_on_a_terminal_is_a_log(jobs: Path, tmp_path: Path) -> None:
    arguments = build(tmp_path / "out", jobs, "--allow-empty", "--log-format", "json")
    shown = on_terminal(NEVER.format(then="pass"), arguments, columns=10_000)
    assert shown.code == 0
    lines = [json.loads(line) for line in shown.screen.lines if line]
    assert [line["event"] for line in lines] == ["begin", "end"]


def test_a_run_that_fails_says_hostile_names_as_text(jobs: Path, tmp_path: Path, run: Run) -> None:
    for shape in ([], ["--log-format", "text"], ["--log-format", "json"]):
        done = run("verify", tmp_path / HOSTILE, *shape)
        assert done.returncode == 2
        assert not set("\x1b\x07\r\u202e") & set(done.stderr)


def event(**more: object) -> Progress:
    known: dict[str, object] = {"done": 0, "total": 400, "unit": "trials"}
    return Progress(**(known | more))  # type: ignore[arg-type]


def test_the_pace() -> None:
    """Time left goes by bytes where they are known: trials differ in size."""
    first = event(done=10, bytes_done=100, bytes_total=1000)
    later = event(done=110, bytes_done=300, bytes_total=1000)
    assert Pace.of(first, later, 10.0) == Pace(10.0, 20.0, 35.0)
    assert Pace.of(event(done=0), event(done=100), 10.0) == Pace(10.0, 0.0, 30.0)
    assert Pace.of(first, first, 10.0) == Pace(0.0, 0.0, None)
    assert Pace.of(event(), event(done=500), 10.0).left == 0.0


def test_the_phrases() -> None:
    """As docs/look.md shows them."""
    now = event(
        done=110,
        bytes_done=3_000_000,
        bytes_total=10_000_000,
        outcomes={"written": 100, "unchanged": 5, "duplicate_id": 3, "no_cell": 2, "x": 1, "y": 0},
        issues={"time_without_zone": 7, "call_lost": 1},
        parts=2,
    )
    memory = Memory(process=100_000_000, workers=300_000_000, count=2)
    shown = re.search(r"^```text\n(.*?)^```", LOOK.read_text(), re.MULTILINE | re.DOTALL)
    assert shown is not None
    assert phrases(now, Pace(10.0, 20_000.0, 35.0), memory, 61.0) == shown[1].splitlines()
    assert phrases(event(), Pace(0.0, 0.0, None), Memory(), 0.0)[0] == "0 of 400 trials, 0:00"
    assert top({}) == ""
    assert top({"a\x1b": 1}) == r"a\x1b 1"
    assert clock(3723.9) == "1:02:03"


def test_a_narrow_line_ends_with_a_whole_phrase() -> None:
    line = "3.0 MB of 10.0 MB, 1,020.0 kB/s"
    assert fitting(line, 30) == "3.0 MB of 10.0 MB"
    assert fitting(line, 31) == line
    assert fitting(line, 5) == "3.0 M"
