"""The recorded calls of one episode: of Harbor's own files, or of its sink."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

from wmo_distill.files import TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.records import SpanSource
from wmo_distill.sources.harbor.episodes import EpisodePlace, TrialDocuments
from wmo_distill.sources.harbor.trajectory import (
    Trajectory,
    read_trajectory,
    summarizer_chats,
    summarizer_prompts,
)
from wmo_distill.sources.recorded import Call, Listed, Lists, Step, Turn, Witness
from wmo_distill.sources.sink import Sink, SinkState, read_sink, sink_path
from wmo_distill.sources.values import at
from wmo_distill.tokenjson.rows import MISSING_IDS, UNREAD_IDS, same_ids

ABSENT = object()
"""In the place of a `rollout_details` that is not there."""
NO_AGENT_RESULT = object()
"""In its place where there is no agent_result either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeCalls:
    """What was recorded of an episode's calls, and of a sink that could not be used."""

    calls: Sequence[Call] = ()
    listed: Listed | None = None
    source: SpanSource = SpanSource.NONE
    issues: tuple[Issue, ...] = ()
    """Of the record in use."""
    in_use: bool = False
    """Whether sinks are looked at."""
    unused_issues: tuple[Issue, ...] = ()
    """Of a sink for which Harbor's own files are used."""
    unreadable: int = 0
    """Calls found in it."""
    sampling: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """The distinct sampling values of a sink's lines."""


class UnreadTurns(Sequence[Turn]):
    """Turns of known number that are read when the first of them is asked for.

    Of a file that changed meanwhile it gives so many turns too, empty ones for those it lost.
    """

    def __init__(self, count: int, read: Callable[[], Sequence[Turn]]) -> None:
        self._count = count
        self._read = read
        self._turns: Sequence[Turn] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Turn]: ...
    def __getitem__(self, index: int | slice) -> Turn | Sequence[Turn]:
        if self._turns is None:
            read = self._read()[: self._count]
            self._turns = [*read, *[Turn()] * (self._count - len(read))]
        return self._turns[index]


def episode_calls(
    trial: TrialDocuments,
    place: EpisodePlace,
    agent_dir: str,
    trajectory: Trajectory,
    options: BuildOptions,
) -> EpisodeCalls:
    """The sink's calls where sinks are in use and it can be read, else Harbor's own."""
    if options.sinks is None:
        return EpisodeCalls(listed=_own(trial, place, agent_dir, trajectory, options))
    sink = _sink(trial, place, TrialFiles(options.sinks), options.extra)
    if sink.state is SinkState.READ:
        return EpisodeCalls(
            calls=sink.calls,
            source=SpanSource.SINK,
            issues=sink.issues,
            in_use=True,
            sampling=sink.sampling,
        )
    return EpisodeCalls(
        listed=_own(trial, place, agent_dir, trajectory, options),
        in_use=True,
        unused_issues=sink.issues,
        unreadable=sink.lines,
        sampling=sink.sampling,
    )


def entry_lists(entry: Any) -> Lists:
    """The lists of one entry of rollout_details; what is no list is absent, with an issue."""
    issues: list[Issue] = []
    if not isinstance(entry, dict):
        return Lists([], [], [], {}, [Issue.ENTRY_DAMAGED])

    def rows(key: str) -> list[Any]:
        value = entry.get(key)
        if value is not None and not isinstance(value, list):
            issues.append(Issue.ENTRY_DAMAGED)
        return value if isinstance(value, list) else []

    lists = Lists(
        rows("prompt_token_ids"), rows("completion_token_ids"), rows("logprobs"), {}, issues
    )
    if not issues and not lists.n_calls:
        issues.append(Issue.ENTRY_EMPTY)
    extra = entry.get("extra")
    if isinstance(extra, dict):
        lists.extra = {str(key): value for key, value in extra.items() if isinstance(value, list)}
        if len(lists.extra) < len(extra):
            issues.append(Issue.EXTRA_UNPLACED)
    elif extra is not None:
        issues.append(Issue.EXTRA_UNPLACED)
    return lists


def _own(
    trial: TrialDocuments,
    place: EpisodePlace,
    agent_dir: str,
    trajectory: Trajectory,
    options: BuildOptions,
) -> Listed:
    """What Harbor's own files hold."""
    steps = [step for step in trajectory.steps if step.has_ids]
    # Where nothing is wrong with the result, the trajectory's numbers are never asked for.
    turns = UnreadTurns(len(steps), lambda: _turns(read_trajectory(trial.files, agent_dir).steps))
    agent_result = at(place.recorded, "agent_result")
    details = None
    if isinstance(agent_result, dict):
        details = agent_result.get("rollout_details", ABSENT)
    elif trial.result is not None:
        details = NO_AGENT_RESULT
    if not isinstance(details, list) or not details:
        chats = summarizer_chats(trial.files, agent_dir)
        witness = Witness(turns, summarizers=[_turns(chat) for chat in chats])
        found = listed_of(details, witness)
        return found if trial.result is not None else replace(found, absence=())
    found = listed_of(details, Witness(turns))
    first = steps[0].prompt if steps else MISSING_IDS
    first = turns[0].prompt if first is UNREAD_IDS else first
    recorded = found.entries[0].prompts
    if recorded and same_ids(recorded[0], first):
        return found
    return replace(found, witness=Witness(turns, summarizer_prompts(trial.files, agent_dir)))


def listed_of(details: Any, witness: Witness) -> Listed:
    """The lists of `rollout_details`, or why there are none."""
    if isinstance(details, list) and details:
        return Listed([entry_lists(entry) for entry in details], witness=witness)
    if details is NO_AGENT_RESULT:
        absence = Issue.AGENT_RESULT_MISSING
    elif details is ABSENT:
        absence = Issue.DETAILS_MISSING
    elif details is None:
        absence = Issue.DETAILS_NULL
    else:
        absence = Issue.DETAILS_EMPTY if isinstance(details, list) else Issue.DETAILS_DAMAGED
    return Listed(absence=(absence,), witness=witness)


def _turns(steps: Iterable[Step]) -> list[Turn]:
    """The turns of the steps with ids."""
    return [Turn(s.prompt, s.completion, s.logprobs) for s in steps if s.has_ids]


def _sink(trial: TrialDocuments, place: EpisodePlace, sinks: TrialFiles, extra: bool) -> Sink:
    if place.step_index is None:
        return read_sink(sinks, sink_path(trial.name), extra=extra)
    name = place.step_name
    path = None if name is None else sink_path(trial.name, name)
    sink = read_sink(sinks, path, extra=extra)
    whole = sink_path(trial.name)
    if sink.state is SinkState.MISSING and whole and sinks.stat(whole) is not None:
        return replace(sink, issues=(Issue.SINK_NOT_SPLIT,))
    return sink
