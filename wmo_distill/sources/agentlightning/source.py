"""The source `agentlightning`: an episode is an attempt at a rollout.

The server keeps all of it in memory. What a caller saved of `/api/rollouts/{id}/events` holds the
model's calls and the rewards; `/api/rollouts/{id}` in the same directory holds task, state and
times.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from wmo_distill.files import FilesState, TrialFiles, path_text, plain_text
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.records import Completeness, SegmentInfo, SpanSource, StopReason
from wmo_distill.sources.agentlightning.calls import calls_of, reader
from wmo_distill.sources.base import NOTHING, Folder, FoundTrial, Here, in_each
from wmo_distill.sources.evidence import (
    CallCounters,
    EndingEvidence,
    Evidence,
    GradeEvidence,
    Identity,
    Times,
)
from wmo_distill.sources.growth import Section, marks_of, state_of_sections
from wmo_distill.sources.values import Values, group_id, moment, object_in
from wmo_distill.tokenjson.outline import Element, outline, read_between

_FIRST = "0"
"""The attempt of a rollout that was not tried again."""
_EVENT = frozenset(("event_type", "rollout_id", "attempt_id", "data"))
_ROLLOUT = frozenset(("rollout_id", "is_train", "status"))
_NAMED = "rollout.rollout_id"
_MINTED = re.compile("[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLAIN = re.compile("[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_FAILURES = (
    ("timed out", StopReason.BUDGET),
    ("DeadlineExceeded", StopReason.BUDGET),
    ("shutdown", StopReason.CANCELLED),
    ("spawn failed", StopReason.NOT_RUN),
    ("Invalid Job spec", StopReason.NOT_RUN),
)
"""What the controllers write of a rollout that failed."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Where one attempt's events are, and its rollout: the locator."""

    job: str
    rollout: str
    attempt: str
    events: tuple[Section, ...] = ()
    about: Section | None = None


class AgentLightning:
    """Saved events and rollouts; those of one directory belong together by their ids."""

    kind = "agentlightning"

    def find(self, folder: Folder) -> Here:
        files = TrialFiles(folder.path)
        events: dict[tuple[str, str, str], list[Section]] = {}
        rollouts: dict[str, Section] = {}
        names = sorted(n for n in folder.files if n.endswith((".json", ".jsonl")))
        elements, faults = in_each(names, partial(_elements, folder, files))
        if faults:  # a file that cannot be read may hold events or the rollout of any attempt
            return Here(faults=faults)
        for place, element in elements:
            if element.texts.keys() >= _EVENT:
                rollout = element.text("rollout_id") or ""
                attempt = element.text("attempt_id") or ""
                events.setdefault((rollout, attempt, place.name), []).append(place)
            elif (named := _rollout_id(element)) is not None:
                rollouts.setdefault(named, place)
        keys = [*events, *((rollout, "", "") for rollout in rollouts)]
        seen = {rollout for rollout, _, name in events}
        found = [
            self._found(folder, key, tuple(events.get(key, ())), rollouts.get(key[0]))
            for key in keys
            if key[2] or key[0] not in seen
        ]
        return Here(tuple(found)) if found else NOTHING

    def state(self, found: FoundTrial, sinks: Path | None) -> FilesState:
        """That of its events and its rollout."""
        attempt = _attempt(found)
        places = [*attempt.events, *([attempt.about] if attempt.about else [])]
        named = attempt.job, attempt.rollout, attempt.attempt, len(attempt.events)
        return state_of_sections(TrialFiles(found.root), places, *named)

    def read(self, found: FoundTrial, options: BuildOptions) -> Sequence[Evidence]:
        attempt = _attempt(found)
        files = TrialFiles(found.root)
        parse = reader(files.refuse_large).read
        read = [_value(files, place, parse) for place in attempt.events]
        events = [event for event in read if event is not None]
        whole = None if attempt.about is None else _value(files, attempt.about, files.parse)
        rollout = object_in(object_in(whole).get("rollout", whole))
        evaluated = rollout.get("is_train") is False
        requests = [event for event in events if event.get("event_type") == "model_request"]
        lineage = "main" if evaluated else None
        calls, sampling = calls_of(requests, lineage, options.extra)
        values = Values()
        unreadable = len(read) - len(events)
        return [
            Evidence(
                identity=_identity(found, attempt, rollout, requests, values),
                calls=calls,
                call_source=SpanSource.CAPTURE,
                lineages={"main": SegmentInfo(trainable=False)} if evaluated else {},
                unreadable_calls=unreadable,
                counters=CallCounters(
                    declared=Completeness.INCOMPLETE if unreadable else Completeness.SILENT
                ),
                sampling=sampling,
                ending=EndingEvidence(stated=_ending(rollout, bool(events))),
                grade=_grade(events),
                times=_times(rollout),
                issues=(*[Issue.CALL_UNPLACED] * unreadable, *values.issues),
            )
        ]

    def _found(
        self,
        folder: Folder,
        key: tuple[str, str, str],
        events: tuple[Section, ...],
        about: Section | None,
    ) -> FoundTrial:
        rollout, attempt, name = key
        plain = all(map(_PLAIN.fullmatch, filter(None, (rollout, attempt)))) and bool(rollout)
        own = rollout if attempt in ("", _FIRST) else f"{rollout}.{attempt}"
        file = path_text(name or (about.name if about else ""))
        first = events[0] if events else about
        inside = own if plain else str(first.start if first else 0)
        unique = own if _MINTED.fullmatch(rollout) else folder.below(own)
        return FoundTrial(
            source=self.kind,
            root=folder.path,
            path=f"{folder.below(file)}#{inside}",
            trial_id=unique if plain else None,
            trial_name=own if plain else file,
            locator=Attempt(path_text(folder.path.name), rollout, attempt, events, about),
        )


def _elements(folder: Folder, files: TrialFiles, name: str) -> list[tuple[Section, Element]]:
    """The objects of a file of ours by its name; none of another's, not read to its end."""
    state = files.state_of((name,))
    keys = folder.first_keys(name)
    if not (keys >= _EVENT or keys >= _ROLLOUT or _NAMED in keys):
        return []
    elements = outline(files, name)
    marks = marks_of(files, name, [(element.start, element.end) for element in elements])
    return [
        (Section(name, element.start, element.end, mark, state), element)
        for element, mark in zip(elements, marks, strict=True)
    ]


def _rollout_id(element: Element) -> str | None:
    if element.texts.keys() >= _ROLLOUT:
        return element.text("rollout_id")
    return element.text(_NAMED)


def _attempt(found: FoundTrial) -> Attempt:
    return found.locator if isinstance(found.locator, Attempt) else Attempt("", "", "")


def _value(
    files: TrialFiles, place: Section, parse: Callable[[bytes], Any]
) -> Mapping[str, Any] | None:
    data = read_between(files, place.name, place.start, place.end)
    value = parse(data) if isinstance(data, bytes) else None
    return value if isinstance(value, dict) else None


def _identity(
    found: FoundTrial,
    attempt: Attempt,
    rollout: Mapping[str, Any],
    requests: Sequence[Mapping[str, Any]],
    values: Values,
) -> Identity:
    about, task = object_in(rollout.get("metadata")), rollout.get("input")
    names = [about.get("uid"), about.get("data_id")]
    names += [object_in(task).get("data_id"), object_in(task).get("instance_id")]
    name = next((values.text(one) for one in names if one), None)
    models = {object_in(request.get("data")).get("model") for request in requests[:1]}
    group = [attempt.job, about.get("batch_idx"), name, None if name else task]
    return Identity(
        trial_id=found.trial_id,
        trial_name=plain_text(found.trial_name),
        artifact_dir=found.path,
        task_id=name,
        job=attempt.job or None,
        group_id=group_id(["agentlightning", *(group if rollout else [found.path])]),
        model_name=next((values.text(model) for model in models), None),
    )


def _ending(rollout: Mapping[str, Any], begun: bool) -> StopReason:
    """`succeeded` says that the agent's program ended well, and not why its episode did."""
    status = object_in(rollout.get("status"))
    state, message = status.get("state"), status.get("error_message")
    if state == "failed":
        text = message if isinstance(message, str) else ""
        return next((reason for word, reason in _FAILURES if word in text), StopReason.ERROR)
    return StopReason.NOT_RUN if state == "queuing" and not begun else StopReason.UNKNOWN


def _grade(events: Sequence[Mapping[str, Any]]) -> GradeEvidence:
    """The last reward counts; one that the trainer filled in is kept and does not."""
    rewards = [event for event in events if event.get("event_type") == "reward"]
    if not rewards:
        return GradeEvidence()
    about = object_in(rewards[-1].get("data"))
    stand_in = about.get("source") == "fallback"
    return GradeEvidence(
        rewards={"reward": about.get("value")}, recorded_valid=False if stand_in else None
    )


def _times(rollout: Mapping[str, Any]) -> Times:
    status = object_in(rollout.get("status"))
    ended = status.get("state") in ("succeeded", "failed")
    return Times(
        started_at=moment(status.get("created_at")),
        finished_at=moment(status.get("updated_at")) if ended else None,
    )
