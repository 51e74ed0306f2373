"""Prompts that repeat: what is parsed of them grows with what each call adds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bench import captures
from tests.sources import capture_bank as bank
from wmo_distill.tokenjson import scan


@pytest.mark.parametrize(
    "write", [captures.write_openenv, captures.write_events, captures.write_gateway]
)
def test_the_text_of_a_prompt_is_parsed_once(
    write: Callable[[Path, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One session of 30 calls: 30 x 300 ids sampled, 2000 + 29 x 800 in the longest prompt."""
    parsed: list[int] = []
    for name in ("read_ids", "read_ids_after"):
        read = getattr(scan, name)

        def counted(text: bytes, read: Any = read) -> Any:
            ids = read(text)
            parsed.append(ids.size)
            return ids

        monkeypatch.setattr(scan, name, counted)
    (tmp_path / "run").mkdir()
    write(tmp_path / "run", 1)
    (record,) = bank.built([tmp_path / "run"], tmp_path / "out")
    assert sum(parsed) == 30 * 300 + 2000 + 29 * 800
    assert len(record.spans) == 30
