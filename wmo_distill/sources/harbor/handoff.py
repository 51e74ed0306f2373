"""What terminus-2 gives the model after a compaction: the questions that a fresh agent asked."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.sources.harbor.documents import read_trajectory_file
from wmo_distill.sources.harbor.trajectory import message_text

_ANSWERS = re.compile(r"trajectory\.summarization-(\d+)-answers\.json")
_QUESTIONS = "-questions"

Exchange = tuple[Mapping[str, Any], Mapping[str, Any]]
"""The step that prompts for questions, and the step that asks them."""


def read_questions(
    files: TrialFiles,
    agent_dir: str,
    document: Mapping[str, Any],
    note: Mapping[str, Any],
    handoff: str,
) -> Exchange | None:
    """The questions of the compaction that the step `note` tells of; None if they are not recorded.

    They are in the trajectory that `note` refers to: a file of the directory, or one embedded in
    the document. Without a reference it is that whose answers are in the `handoff` message:
    of several the one with the longest answers, and none where two have the same.
    """
    references = [ref for ref in _references(note) if _names_questions(ref)]
    if references:
        for reference in references:
            steps = _referred(files, agent_dir, document, reference)
            if (found := _exchange(steps)) is not None:
                return found
        return None
    matching: list[tuple[int, str]] = []
    for name in files.names(agent_dir):
        match = _ANSWERS.fullmatch(name)
        if match is None:
            continue
        answered = _exchange(_file_steps(files, f"{agent_dir}/{name}"))
        text = message_text(answered[1].get("message"))[0] if answered else ""
        if text and text in handoff:
            matching.append((len(text), match[1]))
    longest = max((length for length, _ in matching), default=0)
    numbers = [number for length, number in matching if length == longest]
    if len(numbers) != 1:
        return None
    asked = f"{agent_dir}/trajectory.summarization-{numbers[0]}{_QUESTIONS}.json"
    return _exchange(_file_steps(files, asked))


def _references(note: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    observation = note.get("observation")
    results = observation.get("results") if isinstance(observation, dict) else None
    for result in results if isinstance(results, list) else ():
        refs = result.get("subagent_trajectory_ref") if isinstance(result, dict) else None
        for ref in refs if isinstance(refs, list) else [refs]:
            if isinstance(ref, dict):
                yield ref


def _names_questions(reference: Mapping[str, Any]) -> bool:
    names = (reference.get(key) for key in ("trajectory_path", "trajectory_id", "session_id"))
    return any(
        isinstance(name, str) and name.removesuffix(".json").endswith(_QUESTIONS) for name in names
    )


def _referred(
    files: TrialFiles, agent_dir: str, document: Mapping[str, Any], reference: Mapping[str, Any]
) -> list[Any]:
    path = reference.get("trajectory_path")
    if isinstance(path, str) and path:
        # Only the directory itself holds such files, wherever the agent saw it while it ran.
        return _file_steps(files, f"{agent_dir}/{posixpath.basename(path)}")
    embedded = document.get("subagent_trajectories")
    for key in ("trajectory_id", "session_id"):
        name = reference.get(key)
        for other in embedded if isinstance(embedded, list) and isinstance(name, str) else ():
            if isinstance(other, dict) and other.get(key) == name:
                return _steps(other)
    return []


def _file_steps(files: TrialFiles, relative: str) -> list[Any]:
    read = read_trajectory_file(files, relative)
    return [] if isinstance(read, Absent) else _steps(read.value)


def _steps(document: Any) -> list[Any]:
    steps = document.get("steps") if isinstance(document, dict) else None
    return steps if isinstance(steps, list) else []


def _exchange(steps: list[Any]) -> Exchange | None:
    """The first prompt that is not copied and the reply to it."""
    own = [s for s in steps if isinstance(s, dict) and s.get("is_copied_context") is not True]
    for prompt, reply in pairwise(own):
        if prompt.get("source") == "user" and reply.get("source") == "agent":
            return prompt, reply
    return None
