"""ATIF trajectories: what the agent did, turn by turn, over all continuation files."""

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wmo_distill.credentials import is_masked
from wmo_distill.files import Absent, TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.sources.harbor.documents import read_trajectory_file
from wmo_distill.sources.harbor.reply import claims_completion
from wmo_distill.sources.recorded import Step
from wmo_distill.sources.values import moment
from wmo_distill.tokenjson.rows import MISSING_IDS, MISSING_LOGPROBS, IdRow, LogprobRow

COMPLETE_TOOL = "mark_task_complete"
_PARSE_ERROR = "Previous response had parsing errors"
_COMPACTION = "Performed context summarization"
_PARSED = "Analysis:"
_SUMMARIZER = re.compile(r"trajectory\.summarization-(\d{0,9})(?:-(\w+))?.*\.json", re.DOTALL)
_SUMMARIZER_CALLS = ("summary", "questions", "answers")


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The agent's steps in order; `absent` says why there are none to be had."""

    absent: Absent | None = None
    steps: tuple[Step, ...] = ()
    compactions: tuple[int, ...] = ()
    """Index of the first step after each compaction."""
    reference_submitted: bool = False
    """Whether the last agent step of the first file calls the completion tool."""
    issues: tuple[Issue, ...] = ()
    slow_reads: int = 0
    agent: Any = None
    """What the first file records of the agent: name, version, model, and `extra`."""

    @property
    def complete(self) -> bool:
        """Whether every file was read, so that the last step is the agent's last."""
        lost = {Issue.CONTINUATION_MISSING, Issue.CONTINUATION_ESCAPES}
        return self.absent is None and lost.isdisjoint(self.issues)


def read_trajectory(files: TrialFiles, agent_dir: str, *, unread: bool = False) -> Trajectory:
    """The trajectory of an agent directory, such as `agent` or `steps/x/agent`.

    With `unread` the rows of its steps are as `read_trajectory_file` gives them with it.
    """
    first = _read(files, f"{agent_dir}/trajectory.json", unread=unread)
    if isinstance(first, Absent):
        issue = {
            Absent.MISSING: Issue.TRAJECTORY_MISSING,
            Absent.UNREADABLE: Issue.TRAJECTORY_UNREADABLE,
        }[first]
        return Trajectory(absent=first, issues=(issue,))
    documents, issues = _continued(files, agent_dir, first, unread=unread)
    raw = not any(_has_tool_calls(document) for document, _ in documents)
    steps: list[Step] = []
    compactions: list[int] = []
    images = masked = False
    for number, (document, _) in enumerate(documents):
        if number:
            compactions.append(len(steps))
        for step in document["steps"]:
            if not isinstance(step, dict) or step.get("is_copied_context") is True:
                continue
            text, has_image = message_text(step.get("message"))
            images |= has_image
            masked |= any(map(is_masked, [text, *observed(step)]))
            if step.get("source") == "agent":
                turn = _agent_step(step, text, raw, _parser(document))
                if turn.has_ids or not is_dispatched(step):
                    steps.append(turn)
            elif starts_anew(step, text):
                compactions.append(len(steps))
    if images:
        issues.append(Issue.IMAGE_IN_MESSAGE)
    issues += [Issue.TEXT_MASKED] * masked
    return Trajectory(
        steps=tuple(steps),
        compactions=tuple(dict.fromkeys(x for x in compactions if x < len(steps))),
        reference_submitted=_reference_submitted(documents[0][0]),
        issues=tuple(issues),
        slow_reads=sum(slow for _, slow in documents),
        agent=documents[0][0].get("agent"),
    )


def trajectory_documents(
    files: TrialFiles, agent_dir: str
) -> tuple[list[dict[str, Any]], bool] | Absent:
    """(the trajectory's files in order, each with its `steps`; whether all could be read)."""
    first = _read(files, f"{agent_dir}/trajectory.json")
    if isinstance(first, Absent):
        return first
    documents, issues = _continued(files, agent_dir, first, unread=False)
    return [document for document, _ in documents], not issues


def summarizer_chats(files: TrialFiles, agent_dir: str) -> tuple[tuple[Step, ...], ...]:
    """The steps with ids of each summarizer that has a trajectory of its own, in order of call."""
    named = [(_SUMMARIZER.fullmatch(name), name) for name in files.names(agent_dir)]
    ordered = sorted((_call_order(match), name) for match, name in named if match)
    chats: list[tuple[Step, ...]] = []
    for _, name in ordered:
        read = _read(files, f"{agent_dir}/{name}")
        if isinstance(read, Absent):
            continue
        own = [
            _agent_step(step, "", True, None)
            for step in read[0]["steps"]
            if isinstance(step, dict) and step.get("is_copied_context") is not True
        ]
        if chat := tuple(step for step in own if step.has_ids):
            chats.append(chat)
    return tuple(chats)


def summarizer_prompts(files: TrialFiles, agent_dir: str) -> tuple[IdRow, ...]:
    """The first recorded prompt of each summarizer that has a trajectory of its own."""
    prompts = [
        [s.prompt for s in chat if s.prompt.size] for chat in summarizer_chats(files, agent_dir)
    ]
    return tuple(found[0] for found in prompts if found)


def message_text(message: Any) -> tuple[str, bool]:
    """(text, whether an image is in it) of a message: a string, or a list of parts."""
    if isinstance(message, str):
        return message, False
    if not isinstance(message, list):
        return "", False
    texts: list[str] = []
    image = False
    for part in message:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            text = part.get("text")
            if isinstance(text, str):
                texts.append(text)
            kind = part.get("type")
            image |= isinstance(kind, str) and "image" in kind
    return "\n".join(texts), image


def _read(
    files: TrialFiles, relative: str, *, unread: bool = False
) -> tuple[dict[str, Any], bool] | Absent:
    read = read_trajectory_file(files, relative, unread=unread)
    if isinstance(read, Absent):
        return read
    if not isinstance(read.value, dict) or not isinstance(read.value.get("steps"), list):
        return Absent.UNREADABLE
    return read.value, read.slow


def _continued(
    files: TrialFiles, agent_dir: str, first: tuple[dict[str, Any], bool], *, unread: bool
) -> tuple[list[tuple[dict[str, Any], bool]], list[Issue]]:
    """The first file and those it is continued in, none twice and none outside the directory."""
    documents = [first]
    seen = {"trajectory.json"}
    while True:
        reference = documents[-1][0].get("continued_trajectory_ref")
        if reference is None:
            return documents, []
        if not isinstance(reference, str) or not reference:
            return documents, [Issue.CONTINUATION_MISSING]
        name = posixpath.normpath(reference)
        if name == ".." or name.startswith(("/", "../")) or "\\" in name:
            return documents, [Issue.CONTINUATION_ESCAPES]
        if "/" in name or not name.endswith(".json"):
            # Only such files next to the first one are watched for changes.
            return documents, [Issue.CONTINUATION_MISSING]
        if name in seen:
            return documents, [Issue.CONTINUATION_CYCLIC]
        seen.add(name)
        following = _read(files, f"{agent_dir}/{name}", unread=unread)
        if isinstance(following, Absent):
            return documents, [Issue.CONTINUATION_MISSING]
        documents.append(following)


def _call_order(name: re.Match[str]) -> tuple[int, int]:
    """Summaries are numbered; each asks for a summary, then for questions, then for answers."""
    known = name[2] in _SUMMARIZER_CALLS
    place = _SUMMARIZER_CALLS.index(name[2]) if known else len(_SUMMARIZER_CALLS)
    return int(name[1] or 0), place


def _parser(document: Mapping[str, Any]) -> str | None:
    """The name of the parser of replies, which Harbor records with the agent's."""
    agent = document.get("agent")
    extra = agent.get("extra") if isinstance(agent, dict) else None
    name = extra.get("parser") if isinstance(extra, dict) else None
    return name if isinstance(name, str) else None


def _agent_step(step: Mapping[str, Any], text: str, raw: bool, parser: str | None) -> Step:
    metrics = _metrics(step)
    prompt = metrics.get("prompt_token_ids")
    completion = metrics.get("completion_token_ids")
    logprobs = metrics.get("logprobs")
    claims, failed = _declared(step, text, raw, parser)
    billed = metrics.get("completion_tokens")
    return Step(
        claims=claims,
        parse_error=failed,
        prompt=prompt if isinstance(prompt, IdRow) else MISSING_IDS,
        completion=completion if isinstance(completion, IdRow) else MISSING_IDS,
        logprobs=logprobs if isinstance(logprobs, LogprobRow) else MISSING_LOGPROBS,
        billed=billed if type(billed) is int else None,
        at=moment(step.get("timestamp")),
    )


def _declared(
    step: Mapping[str, Any], text: str, raw: bool, parser: str | None
) -> tuple[bool, bool]:
    """(whether the turn claims completion, whether its reply did not parse)."""
    answers = observed(step)
    if any(answer.startswith(_PARSE_ERROR) for answer in answers):
        return False, True
    if raw:
        claim = claims_completion(text, parser)
        return claim is True, claim is None and not any(answers)
    if step.get("tool_calls") is not None:
        return _calls_complete(step), False
    # A reply that parsed is written as its analysis and is answered by the terminal.
    return False, not any(answers) and not text.startswith(_PARSED)


def _metrics(step: Mapping[str, Any]) -> Mapping[str, Any]:
    metrics = step.get("metrics")
    return metrics if isinstance(metrics, dict) else {}


def observed(step: Mapping[str, Any]) -> list[str]:
    observation = step.get("observation")
    results = observation.get("results") if isinstance(observation, dict) else None
    if not isinstance(results, list):
        return []
    return [message_text(r.get("content"))[0] for r in results if isinstance(r, dict)]


def _calls_complete(step: Mapping[str, Any]) -> bool:
    calls = step.get("tool_calls")
    if not isinstance(calls, list):
        return False
    return any(isinstance(c, dict) and c.get("function_name") == COMPLETE_TOOL for c in calls)


def _has_tool_calls(document: Mapping[str, Any]) -> bool:
    return any(
        isinstance(step, dict)
        and step.get("source") == "agent"
        and step.get("tool_calls") is not None
        for step in document["steps"]
    )


def is_dispatched(step: Mapping[str, Any]) -> bool | None:
    """Whether the harness made this step without a model; None where ATIF's count is missing."""
    count = step.get("llm_call_count")
    number = isinstance(count, int | float) and not isinstance(count, bool)
    return count == 0 if number else None


def starts_anew(step: Mapping[str, Any], text: str) -> bool:
    """Whether a step tells of a compaction: what follows is another history."""
    extra = step.get("extra")
    management = extra.get("context_management") if isinstance(extra, dict) else None
    if isinstance(management, dict) and management.get("type") == "compaction":
        return True
    return step.get("source") == "system" and text.startswith(_COMPACTION)


def _reference_submitted(document: Mapping[str, Any]) -> bool:
    steps = [s for s in document["steps"] if isinstance(s, dict) and s.get("source") == "agent"]
    return bool(steps) and _calls_complete(steps[-1])
