"""The tokens of one episode: from Harbor's own files, or from its sink."""

from collections.abc import Iterable
from dataclasses import replace

from wmo_distill.files import TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.options import BuildOptions
from wmo_distill.sources.harbor.trajectory import (
    AgentStep,
    Trajectory,
    read_trajectory,
    summarizer_chats,
    summarizer_prompts,
)
from wmo_distill.sources.sink import Sink, SinkState, read_sink, sink_path
from wmo_distill.tokenjson.rows import MISSING_IDS, UNREAD_IDS, IdRow
from wmo_distill.trials.episodes import EpisodePlace, TrialDocuments
from wmo_distill.trials.recorded import sink_spans
from wmo_distill.trials.spans import ABSENT, Spans, episode_spans, trajectory_spans
from wmo_distill.trials.values import at
from wmo_distill.trials.witness import Turn, UnreadTurns, Witness, first_prompt_is


def own_spans(
    trial: TrialDocuments,
    episode: EpisodePlace,
    agent_dir: str,
    trajectory: Trajectory,
    options: BuildOptions,
) -> Spans:
    """The spans that Harbor's own files hold."""
    steps = [step for step in trajectory.steps if step.has_ids]
    # Where nothing is wrong with the result, the trajectory's numbers are never asked for.
    turns = UnreadTurns(len(steps), lambda: _turns(read_trajectory(trial.files, agent_dir).steps))
    agent_result = at(episode.recorded, "agent_result")
    details = (
        agent_result.get("rollout_details", ABSENT) if isinstance(agent_result, dict) else None
    )
    if not isinstance(details, list) or not details:
        chats = summarizer_chats(trial.files, agent_dir)
        witness = Witness(turns, summarizers=[_turns(chat) for chat in chats])
        if trial.result is None or not isinstance(agent_result, dict):
            missing = () if trial.result is None else (Issue.AGENT_RESULT_MISSING,)
            return trajectory_spans(witness, missing, salvage=options.salvage)
        return episode_spans(details, witness, salvage=options.salvage)
    summarizers: tuple[IdRow, ...] = ()
    first = steps[0].prompt if steps else MISSING_IDS
    first = turns[0].prompt if first is UNREAD_IDS else first
    if not first_prompt_is(details[0], first):
        summarizers = summarizer_prompts(trial.files, agent_dir)
    return episode_spans(
        details, Witness(turns, summarizers), salvage=options.salvage, extra=options.extra
    )


def _turns(steps: Iterable[AgentStep]) -> list[Turn]:
    """The turns of the steps with ids."""
    return [Turn(s.prompt, s.completion, s.logprobs) for s in steps if s.has_ids]


def from_sink(
    trial: TrialDocuments, episode: EpisodePlace, options: BuildOptions
) -> tuple[Sink | None, Spans | None]:
    """(the sink, its spans); spans are None where the trial's own tokens stand in."""
    if options.sinks is None:
        return None, None
    sinks = TrialFiles(options.sinks)
    if episode.step_index is None:
        sink = read_sink(sinks, sink_path(trial.name))
    else:
        name = episode.step_name
        sink = read_sink(sinks, None if name is None else sink_path(trial.name, name))
        whole = sink_path(trial.name)
        if sink.state is SinkState.MISSING and whole and sinks.stat(whole) is not None:
            sink = replace(sink, issues=(Issue.SINK_NOT_SPLIT,))
    return sink, sink_spans(sink, salvage=options.salvage, extra=options.extra)
