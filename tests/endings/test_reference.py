"""The reference's stop reasons, as recorded from it for every case."""

import json
from pathlib import Path
from typing import Any

import pytest

from wmo_distill.reference.entry_points import read_terminus_stop_reason, read_trial_stop_reason

CASES = Path(__file__).parents[2] / "fixtures" / "cases"


def recorded() -> list[Any]:
    found = []
    for case in sorted(CASES.iterdir()):
        reference = json.loads((case / "reference.json").read_text())
        for mode in ("with_cells", "derived", "sink"):
            for item in reference.get(mode, []):
                if item["kind"] == "record":
                    name = item["trial_name"]
                    cap = reference["args"]["max_turns"]
                    expected = (case, mode, name, cap, item["stop_reason"])
                    found.append(pytest.param(*expected, id=f"{case.name}-{mode}-{name}"))
    return found


RECORDED = recorded()


@pytest.mark.parametrize(("case", "mode", "name", "cap", "word"), RECORDED)
def test_the_word_is_the_references(
    case: Path, mode: str, name: str, cap: int, word: str | None
) -> None:
    trial = case / "trials" / name
    if mode == "sink":
        assert read_trial_stop_reason(trial) == word
    else:
        assert read_terminus_stop_reason(trial, max_turns=cap) == word


def test_every_rule_is_among_the_cases() -> None:
    words = {p.values[-1] for p in RECORDED}
    assert {None, "budget", "provider_error", "error", "max_turns", "submitted"} <= words
