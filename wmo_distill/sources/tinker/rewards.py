"""The rewards of rollouts, `iteration_N/*_rollout_summaries.jsonl` next to a capture.

A summary also has the lengths of each step's prompt and answer. A step of which no call is
recorded is a lost call:

    steps   39+5  59+6  80+13        calls  39+5  80+13        one is lost
"""

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from wmo_distill.files import Absent, TrialFiles, parse_json
from wmo_distill.limits import TEXT_BYTES
from wmo_distill.sources.growth import mark_of
from wmo_distill.sources.tinker.places import Line, Summary, graded_key, parsed_head

_FOLDER = re.compile(r"iteration_\d+")
_ENDING = "_rollout_summaries.jsonl"
Lengths = tuple[object, object]


def summaries_in(files: TrialFiles) -> dict[tuple[str, ...], Summary]:
    """Where the summary of each rollout is; of several the last."""
    found: dict[tuple[str, ...], Summary] = {}
    for folder in filter(_FOLDER.fullmatch, files.names()):
        for name in files.names(folder):
            if name.endswith(_ENDING):
                found.update(_in_file(files, f"{folder}/{name}"))
    return found


def _in_file(files: TrialFiles, name: str) -> Iterator[tuple[tuple[str, ...], Summary]]:
    start, whole = 0, files.state_of((name,))
    opened = files.open(name)
    if isinstance(opened, Absent):
        return
    with io.BufferedReader(opened, 1 << 20) as lines:
        while line := lines.readline(TEXT_BYTES):
            value = parsed_head(line)
            if value is not None and line.endswith(b"\n"):
                yield graded_key(value), Summary(name, Line(start, len(line)), mark_of(line), whole)
            start += len(line)


def read_summary(files: TrialFiles, summary: Summary) -> Mapping[str, Any]:
    """One summary; empty where it can no longer be read."""
    value = parse_json(_line(files, summary))
    return value if isinstance(value, dict) else {}


def marked_now(files: TrialFiles, summary: Summary) -> Summary:
    """The summary with the mark of what is there now."""
    return replace(summary, mark=mark_of(_line(files, summary)))


def _line(files: TrialFiles, summary: Summary) -> bytes:
    opened = files.open(summary.file)
    if isinstance(opened, Absent):
        return b""
    with opened:
        opened.seek(summary.line.start)
        return opened.read(summary.line.size)


def rewards_of(summary: Mapping[str, Any]) -> dict[str, object]:
    """By name; the sum over the steps and the group's own part is `reward`."""
    names = {"reward": "total_reward", "final_reward": "final_reward"}
    return {name: summary[key] for name, key in names.items() if summary.get(key) is not None}


def lost_steps(summary: Mapping[str, Any], calls: Iterable[Lengths]) -> int:
    """How many steps have no recorded call.

    Where no length fits at all, lengths are counted in another way: then numbers alone are held
    against each other.
    """
    steps = summary.get("steps")
    if not isinstance(steps, list):
        return 0
    wanted = Counter(_lengths(step) for step in steps)
    recorded = Counter(calls)
    unfit = wanted - recorded
    if unfit.total() == len(steps):
        return max(0, len(steps) - recorded.total())
    return unfit.total()


def _lengths(step: Any) -> Lengths:
    found = step if isinstance(step, dict) else {}
    seen, said = found.get("ob_len"), found.get("ac_len")
    return (seen if type(seen) is int else None, said if type(said) is int else None)
