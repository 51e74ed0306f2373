"""What a process takes at most that builds a run of lines of 50 MB."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.sources import write_traces
from wmo_distill.engines.local import LEAN

LINE = 50_000_000
BUILD = """
import sys
from wmo_distill.pipeline.batch import Batch, Unit, Work, run_batch
from wmo_distill.options import BuildOptions
from wmo_distill.sources.finding import discover
from wmo_distill.pipeline.batch import state_of
from wmo_distill.trial import read_found
from pathlib import Path

def most():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))

trials = discover([Path(sys.argv[1])]).trials
units = tuple(Unit(Work(found.path, found, state_of(found, None))) for found in trials)
before = most()
result = run_batch(Batch(Path(sys.argv[2]), units, BuildOptions(), read_found))
assert result.part.rows == 2 and result.part.tokens > 2_000_000
print((most() - before) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for the most memory of a process")
def test_a_line_takes_about_its_tokens(tmp_path: Path) -> None:
    """A byte a byte of one line, however many there are: reading, as Arrow's writer of one row."""
    run = tmp_path / "run"
    run.mkdir()
    write_traces(run, 2 * LINE, LINE)
    command = [sys.executable, "-c", BUILD, str(run), str(tmp_path / "part.parquet")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=LEAN | os.environ
    )
    assert int(done.stdout) < 1.9 * LINE
