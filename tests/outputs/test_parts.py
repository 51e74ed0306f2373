"""What every command that writes a directory keeps to: one writer, whole files, true words."""

import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import sealed
from tests.outputs.works import VERIFY, WORKS, small
from wmo_distill.datums.manifest import DATUMS
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.exporters.files import EXPORT
from wmo_distill.exporters.run import export_datums
from wmo_distill.files import sync_directory
from wmo_distill.outputs import parts
from wmo_distill.outputs.lock import writer_lock
from wmo_distill.outputs.manifest import MANIFEST
from wmo_distill.outputs.parts import check_out

_FSYNC = os.fsync
works = pytest.mark.parametrize("name", WORKS)


def names(out: Path) -> set[str]:
    return {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()}


def failing(real: Callable[..., Any], after: Path, code: int = errno.EIO) -> Callable[..., Any]:
    """The call, until the new manifest of a directory is in place."""
    before = (after / MANIFEST).stat().st_mtime_ns

    def call(*args: Any, **more: Any) -> Any:
        if (after / MANIFEST).stat().st_mtime_ns != before:
            raise OSError(code, os.strerror(code), os.fspath(after))
        return real(*args, **more)

    return call


@works
def test_one_writer_at_a_time(source: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    WORKS[name](source, out)
    before = names(out)
    with writer_lock(out), pytest.raises(UsageError, match="no other run") as reported:
        WORKS[name](source, out)
    assert str(out) in str(reported.value)
    assert reported.value.exit_code == 2
    assert names(out) == before
    WORKS[name](source, out)


@pytest.mark.parametrize("name", ["datums", "export"])
def test_what_cannot_be_removed_after_the_commit(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    out = tmp_path / "out"
    WORKS[name](source, out)
    old = set(sealed.read(out)["summary"]["parts" if name == "datums" else "files"])
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", failing(os.unlink, out))
        with pytest.raises(DistillError, match="holds what was committed") as reported:
            WORKS[name](source, out)
    assert "left as it was" not in str(reported.value)
    new = {part["file"] for part in sealed.read(out)["parts"]}
    assert not new & old
    assert names(out) == old | new | {MANIFEST}
    WORKS[name](source, out)
    assert VERIFY[name](out) == []


def failing_sync(of: Callable[[], bool], code: int) -> Callable[[int], None]:
    def sync(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode) and of():
            raise OSError(code, os.strerror(code))
        _FSYNC(fd)

    return sync


@works
def test_a_directory_that_cannot_be_synced(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing_sync(lambda: True, errno.EIO))
        with pytest.raises(DistillError, match="left as it was"):
            WORKS[name](source, out)
        assert not out.exists()
        patch.setattr(os, "fsync", failing_sync((out / MANIFEST).exists, errno.EIO))
        with pytest.raises(DistillError, match="holds what was committed"):
            WORKS[name](source, out)
        staged = lambda: any((p / MANIFEST).exists() for p in out.glob(".staging-*"))  # noqa: E731
        patch.setattr(os, "fsync", failing_sync(staged, errno.EIO))
        if name != "score":
            with pytest.raises(DistillError, match="a commit that is not finished; run it again"):
                WORKS[name](source, out)
    WORKS[name](source, out)
    assert VERIFY[name](out) == []


def test_a_disk_that_fails_and_cannot_be_read_any_more(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def sync(_: int) -> None:
        monkeypatch.setattr(parts, "unfinished_commits", fail)
        fail()

    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises(DistillError, match=r"found: Input/output error; .* cannot be read now"):
        WORKS["datums"](source, tmp_path / "out")
    with pytest.raises(UsageError, match="found: Input/output error; name another"):
        check_out(tmp_path, DATUMS)


def test_a_file_system_without_directory_syncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", failing_sync(lambda: True, errno.EINVAL))
    sync_directory(tmp_path)


@pytest.mark.parametrize("fresh", [False, True])
@works
def test_what_no_manifest_names_is_removed(
    source: Path, tmp_path: Path, name: str, fresh: bool
) -> None:
    out = tmp_path / "out"
    WORKS[name](source, out)
    part = out / sealed.read(out)["parts"][0]["file"]
    stale = part.with_name(part.name.replace("00000", "00041"))
    half = part.with_name(f".{part.name}.77.tmp")
    for file in (stale, half, out / ".manifest.json.77.tmp", part.with_name("mine.txt")):
        file.write_bytes(b"x")
    (out / ".staging-1").mkdir()
    (out / ".staging-1/data-00000.jsonl").touch()
    if fresh and name == "export":
        export_datums(source / "datums", out, "slime", fresh=True)
    else:
        WORKS[name](source, out)
    listed = {p["file"] for p in sealed.read(out)["parts"]}
    mine = part.with_name("mine.txt").relative_to(out).as_posix()
    assert names(out) == listed | {MANIFEST, mine}
    assert not any("00042" in file for file in listed)  # it has no say in the numbers
    assert [fault.file for fault in VERIFY[name](out)] == [mine]


def reported(name: str, out: Path) -> list[str]:
    """What `verify` reports, be it that there is no manifest to verify against."""
    try:
        return [str(fault) for fault in VERIFY[name](out)]
    except UsageError as error:
        return [str(error).removeprefix(f"{out}/")]


@works
def test_any_flipped_bit_is_found(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    small(monkeypatch.setattr)
    out = tmp_path / "out"
    WORKS[name](source, out)
    assert VERIFY[name](out) == []
    for file in sorted(names(out)):
        whole = (out / file).read_bytes()
        for at in range(0, len(whole), 1 + len(whole) // 40):
            (out / file).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert any(text.startswith(f"{file}: ") for text in reported(name, out)), at
        (out / file).write_bytes(whole)
    assert VERIFY[name](out) == []


@pytest.mark.parametrize("kind", [DATUMS, EXPORT], ids=lambda kind: kind.noun)
def test_a_manifest_that_says_something_else(source: Path, tmp_path: Path, kind: Any) -> None:
    """Readers and later runs refuse it; --fresh replaces it, whatever is left of it."""
    name, out = kind.command, tmp_path / "out"
    fresh = {"datums": _datums, "export": _export}[name]
    WORKS[name](source, out)
    value = sealed.read(out)
    for text in (
        (out / MANIFEST).read_text().replace('"tool_version": "', '"tool_version": "9'),
        "{",
        f'{{"kind": "{value["kind"]}", "schema_version": 99}}',
    ):
        (out / MANIFEST).write_text(text)
        before = names(out)
        with pytest.raises(UsageError, match=r"manifest\.json: expected .*--fresh"):
            WORKS[name](source, out)
        with pytest.raises(UsageError, match=r"manifest\.json: expected"):
            kind.read(out)
        assert names(out) == before
        fresh(source, out)
        assert VERIFY[name](out) == []
        assert not names(out) & before - {MANIFEST}


def _datums(source: Path, out: Path) -> None:
    from wmo_distill.datums.shards import build_datum_shards

    build_datum_shards(source / "shards", out, fresh=True)


def _export(source: Path, out: Path) -> None:
    export_datums(source / "datums", out, "slime", fresh=True)


def test_a_broken_off_commit_of_another_command_is_left_alone(tmp_path: Path) -> None:
    """All that is there is the staged state of scores, which only `score` may finish."""
    staged = tmp_path / "out/.staging-1"
    staged.mkdir(parents=True)
    (staged / "manifest.json").write_text(json.dumps({"kind": "wmo_distill scores"}))
    with pytest.raises(UsageError, match="commit of another command"):
        check_out(tmp_path / "out", EXPORT)
    assert staged.exists()
