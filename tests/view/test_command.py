"""The command `view`: what it serves while builds go on, how it ends, what a wheel holds."""

import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests import sealed
from tests.shards.generated import lawful, write_dataset
from tests.view import data
from tests.view.client import Client
from wmo_distill import build


def test_a_dataset_that_is_replaced_while_it_is_served(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    shutil.copytree(data.TRIALS / "01-solved", tmp_path / "jobs" / "a")
    with data.serving(out) as address:
        client = Client(address)
        start = client.api("start")
        assert (start["committed"], start["episodes"]) == (False, 0)
        assert client.api("episodes")["rows"] == []
        assert "nothing committed yet" in client.api("stats")["error"]
        staging = out / ".staging-abc" / "parts"
        staging.mkdir(parents=True)
        (staging / "part-00000.parquet").write_bytes(b"PAR1 not whole")
        assert client.api("state")["building_parts"] == 0
        write_dataset(tmp_path / "other", [[lawful("one")]])
        shutil.copy(tmp_path / "other/parts/part-00000.parquet", staging)
        assert client.api("state")["building_parts"] == 1
        shutil.rmtree(out / ".staging-abc")

        build([tmp_path / "jobs"], out)
        (first,) = client.api("episodes")["rows"]
        mark = client.api("state")["mark"]
        assert client.api("episode", id=first["episode_id"])["mark"] == mark
        shutil.copytree(data.TRIALS / "30-unicode", tmp_path / "jobs" / "b")
        build([tmp_path / "jobs"], out)
        assert client.api("state")["mark"] != mark
        assert client.api("episodes")["found"] == 2
        assert client.api("tokens", id=first["episode_id"])["ids"]
        shutil.rmtree(tmp_path / "jobs" / "a")
        build([tmp_path / "jobs"], out)
        assert "expected an episode" in client.api("tokens", id=first["episode_id"])["error"]


def test_a_damaged_part_is_a_message(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_dataset(out, [[lawful("one")], [lawful("two")]])
    with data.serving(out) as address:
        client = Client(address)
        assert client.api("episodes")["found"] == 2
        part = out / "parts/part-00001.parquet"
        kept = part.read_bytes()
        part.write_bytes(kept[:60] + b"\0" * 60 + kept[120:])
        assert "expected a part as its manifest says" in client.api("episode", id="two")["error"]
        assert client.api("episode", id="one")["tokens"]
        part.write_bytes(kept)
        assert client.api("episode", id="two")["tokens"]
        sealed.write(out, {**sealed.read(out), "dataset_hash": "another"})
        (out / "manifest.json").write_text("{")
        assert "expected JSON" in client.api("episodes")["error"]
        assert client.api("state")["committed"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing-of-ours"], "found other files"),
        (["out", "--datums", "out"], "expected the manifest of datums"),
        (["out", "--tokenizer", "none.json"], "--tokenizer: expected"),
        (["out", "--port", "99999"], "--port"),
    ],
)
def test_what_is_wrong_is_said_before_serving(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    write_dataset(tmp_path / "out", [[lawful("one")]])
    (tmp_path / "nothing-of-ours").mkdir()
    (tmp_path / "nothing-of-ours" / "x.txt").touch()
    done = subprocess.run(
        [sys.executable, "-m", "wmo_distill", "view", *arguments],
        cwd=tmp_path, env={"PYTHONPATH": str(data.ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_a_line(tmp_path: Path, number: signal.Signals) -> None:
    write_dataset(tmp_path / "out", [[lawful("one")]])
    with subprocess.Popen(
        [sys.executable, "-m", "wmo_distill", "view", tmp_path / "out"],
        cwd=data.ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        client = Client(process.stdout.readline().strip())
        assert client.api("episodes")["found"] == 1
        process.send_signal(number)
        _, said = process.communicate(timeout=600)
    assert process.returncode == 128 + number
    first, last = said.splitlines()
    assert "serving on this machine alone" in first
    assert last == f"wmo-distill: stopped by {number.name}: the dataset was only read"


def test_the_example_in_the_docs_serves(tmp_path: Path) -> None:
    text = (data.ROOT / "docs" / "look.md").read_text()
    (line,) = re.findall(r"^wmo-distill view (.*)$", text, re.MULTILINE)
    out, datums = data.real(tmp_path)
    places = {"shards": str(out), "datums": str(datums)}
    with data.serving(*(places.get(word, word) for word in line.split())) as address:
        client = Client(address)
        (row, *_) = client.api("episodes")["rows"]
        assert client.api("episode", id=row["episode_id"])["has_text"]
        assert "advantages" in client.api("tokens", id=row["episode_id"])


def test_a_wheel_holds_the_page(tmp_path: Path) -> None:
    build_wheel = "import hatchling.build as b, sys; print(b.build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build_wheel, str(tmp_path)],
        cwd=data.ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if "No module named 'hatchling'" in done.stderr:
        pytest.skip("hatchling is not installed")
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    static = data.ROOT / "wmo_distill/view/static"
    assert {f"wmo_distill/view/static/{file.name}" for file in static.iterdir()} <= held
