"""The invariants of a row: what must hold of its columns whatever trial it came from.

Each check yields what was expected and what was found. Rows are checked as they are on disk, before
anything builds a span from them.
"""

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from wmo_distill.arrays import NO_IDS
from wmo_distill.counts import TokenCounts
from wmo_distill.predicates import passes
from wmo_distill.records import SegmentKind
from wmo_distill.shards.decode import SpanColumns
from wmo_distill.shards.encode import EPOCH
from wmo_distill.shards.schema import COLUMNS


class Breach(NamedTuple):
    """An invariant that does not hold."""

    expected: str
    found: str


class Rules(BaseModel):
    """The options of the build that decide what is valid, under the names the manifest has."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    pass_at: float | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    reward_files: bool = False
    salvage: bool = True
    cells: dict[str, str] = Field(default_factory=dict)
    """The trials whose rows are in the order of their cells, by path."""


_FIRST_TIME, _LAST_TIME = (
    (end.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    for end in (datetime.min, datetime.max)
)
_WORDS = {c.name: c.words for c in COLUMNS if c.words is not None}
_GROUP = re.compile("[0-9a-f]{16}")


def word_breaches(row: dict[str, Any]) -> Iterator[Breach]:
    """Closed vocabularies; issues sorted."""
    for name, kind in _WORDS.items():
        value = row[name]
        if isinstance(value, list):
            for word in sorted(set(value) - set(kind)):
                yield Breach(f"{name} of known codes", repr(word))
        elif value not in set(kind):
            yield Breach(f"{name} one of {', '.join(kind)}", repr(value))
    if row["issues"] != sorted(row["issues"]):
        yield Breach("issues sorted", ", ".join(row["issues"]))


def time_breaches(row: dict[str, Any]) -> Iterator[Breach]:
    """Times, in microseconds since 1970, that a calendar holds."""
    for name in ("started_at", "finished_at"):
        if row[name] is not None and not _FIRST_TIME <= row[name] <= _LAST_TIME:
            yield Breach(f"{name} in the years 1 to 9999", str(row[name]))


def identity_breaches(row: dict[str, Any]) -> Iterator[Breach]:
    """How the ids are made, and a path that stays below the parent."""
    trial = row["trial_id"]
    start = "path:" if trial is None else trial
    end = "" if row["step_name"] is None else f"/{row['step_name']}"
    episode = row["episode_id"]
    # Steps of one name are kept apart by their index.
    ends = (end, f"{end}#{row['step_index']}") if end else ("",)
    if not (episode.startswith(start) and episode.endswith(ends)):
        yield Breach(f"episode_id {start}…{end}", episode)
    if not _GROUP.fullmatch(row["group_id"]):
        yield Breach("group_id of 16 hex digits", repr(row["group_id"]))
    path = row["artifact_dir"]
    if not path or path.startswith("/") or ".." in path.split("/"):
        yield Breach("artifact_dir relative to the manifest's parent", repr(path))


def grade_breaches(row: dict[str, Any], rules: Rules) -> Iterator[Breach]:
    """A finite reward; where no cell grades, also its range, `passed` and `infra_failed`."""
    reward, passed, rewards = row["reward"], row["passed"], row["rewards"]
    if reward is not None and not math.isfinite(reward):
        yield Breach("reward finite or null", str(reward))
        return
    names = [entry["name"] for entry in rewards]
    if len(set(names)) < len(names):
        yield Breach("each key of rewards once", ", ".join(names))
    tests = row["tests"]
    if tests is not None and any(count is None or count < 0 for count in tests.values()):
        yield Breach("tests null or three counts of at least 0", str(tests))
        return
    if row["attempt"] is not None and row["artifact_dir"] in rules.cells:
        return  # a cell's grade is the caller's
    if tests is not None and tests["passed"] > tests["resolved"]:
        yield Breach("at most as many tests passed as resolved", str(tests))
    low, high = rules.reward_range
    if reward is not None and not low <= reward <= high:
        yield Breach(f"reward in [{low}, {high}]", str(reward))
    expected = passes(reward, rules.pass_at)
    if passed is not expected:
        yield Breach(f"passed {expected} for reward {reward}", str(passed))
    if row["infra_failed"] and not rules.reward_files and (rewards or reward is not None):
        yield Breach("no rewards where infra_failed", f"reward {reward}, {len(rewards)} rewards")


def span_breaches(
    row: dict[str, Any], spans: SpanColumns, at: int, rules: Rules
) -> Iterator[Breach]:
    """The lists of every call and their coding; `at` is the row's place in its batch."""
    kinds = [segment["kind"] for segment in row["segments"]]
    known = kinds[:1] in ([], ["main"]) and set(kinds[1:]) <= {*SegmentKind} - {"main"}
    if not known:
        yield Breach("segments main, then summarizer or subagent", ", ".join(kinds))
    if any(a > b for a, b in pairwise([0, *row["compactions"]])):
        yield Breach("compactions ascending from 0", str(row["compactions"]))
    first, last = int(spans.starts[at]), int(spans.starts[at + 1])
    if last > first and row["span_source"] == "none":
        yield Breach("no spans with span_source none", f"{last - first} spans")
    before: dict[int, tuple[int, NDArray[np.int32]]] = {}
    sizes: dict[tuple[int, int], int] = {}
    calls = spans.calls
    for i in range(first, last):
        segment, call = int(spans.segment[i]), int(calls.call_index[i])
        where = f"span {i - first} (segment {segment}, call {call})"
        if not 0 <= segment < len(kinds):
            yield Breach(f"{where}: one of the segments", f"{len(kinds)} segments")
        last_call, sequence = before.get(segment, (-1, NO_IDS))
        if call <= last_call:
            yield Breach(f"{where}: a call_index above {last_call}", str(call))
        suffix, sampled = calls.prompt_suffix[i], calls.sampled_token_ids[i]
        suffix = NO_IDS if suffix is None else suffix
        prefix_len = int(calls.prefix_len[i])
        if not 0 <= prefix_len <= sequence.size:
            yield Breach(f"{where}: a prefix_len in [0, {sequence.size}]", str(prefix_len))
            prefix_len = 0
        elif prefix_len < sequence.size and suffix.size and sequence[prefix_len] == suffix[0]:
            yield Breach(f"{where}: the longest common prefix", f"prefix_len {prefix_len}")
        # The reference, and so a build without salvage, keeps a call with an empty prompt.
        if prefix_len + suffix.size == 0 and rules.salvage:
            yield Breach(f"{where}: a prompt", "no ids")
        new = suffix if sampled is None else np.concatenate([suffix, sampled])
        if new.size and int(new.min()) < 0:
            yield Breach(f"{where}: ids in [0, 2^31)", str(int(new.min())))
        logprobs = calls.sampled_logprobs[i]
        n_sampled = 0 if sampled is None else sampled.size
        if logprobs is not None and logprobs.size != n_sampled:
            yield Breach(f"{where}: {n_sampled} log-probabilities", str(logprobs.size))
        runs = calls.versions[i]
        if runs is not None and not _rising([start for _, start in runs], n_sampled):
            starts = ", ".join(str(start) for _, start in runs)
            yield Breach(f"{where}: versions from 0, rising, below {n_sampled}", starts)
        before[segment] = call, np.concatenate([sequence[:prefix_len], new])
        sizes[segment, call] = before[segment][1].size
    for secret in row["secrets"] if sizes else ():  # without its calls a row still names the rules
        at_call = secret["segment"], secret["call_index"]
        start, stop = secret["start"], secret["stop"]
        if not 0 <= start < stop <= sizes.get(at_call, 0):
            expected = f"a secret within the {sizes.get(at_call, 0)} ids of call {at_call}"
            yield Breach(expected, f"{start} to {stop}")


def _rising(starts: Sequence[int], n: int) -> bool:
    """Whether runs that start there cover `n` elements."""
    return starts[:1] == [0] and all(a < b for a, b in pairwise([*starts, n]))


def sampling_breaches(row: dict[str, Any]) -> Iterator[Breach]:
    """The one policy version, or each of several once."""
    one, listed = row["policy_version"], row["policy_versions"]
    if one is not None and listed != [one]:
        yield Breach(f"policy_versions {one}, the policy_version", ", ".join(listed))
    if len(set(listed)) < len(listed):
        yield Breach("each of policy_versions once", ", ".join(listed))


def count_breaches(row: dict[str, Any], counts: TokenCounts) -> Iterator[Breach]:
    """The count columns against the counts of the row's spans."""
    for name in TokenCounts.__dataclass_fields__:
        expected, found = getattr(counts, name), row[name]
        if expected != found:
            yield Breach(f"{name} {expected}, from the spans", str(found))
