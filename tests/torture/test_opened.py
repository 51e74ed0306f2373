"""A build opens nothing outside the PATHs, OUT and the files of its options, and no socket."""

import ast
import sys
from pathlib import Path

from tests.torture.opened import World
from tests.torture.strace import run
from wmo_distill.shards.scan import scan
from wmo_distill.sources.registry import SOURCES

ALLOWED = ("/dev/null", "/etc/localtime", "/usr/share/zoneinfo")


def test_a_build_of_every_source_opens_nothing_else(tmp_path: Path) -> None:
    world = World(tmp_path, every=4)
    command = [sys.executable, "-m", "tests.torture.audited", str(tmp_path / "log")]
    arguments = world.arguments("--workers", "1", "--quiet")
    done = run([*command, *arguments], TMPDIR=str(world.temporary))
    assert done.code == 0, done.said
    events = [line.split("\t") for line in (tmp_path / "log").read_text().splitlines()]
    opened = {(event, ast.literal_eval(path)) for event, path in events}
    assert {event for event, _ in opened} <= {"open", "os.listdir", "os.scandir", "sqlite3.connect"}
    paths = [path for _, path in opened]
    assert [path for path in paths if not world.may_open(path) and path not in ALLOWED] == []
    formats = scan(world.place / "out").select("format").unique().collect()
    assert {*formats["format"], "sink"} == {*SOURCES, "sink"}
