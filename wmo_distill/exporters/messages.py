"""Chats as text, from the trajectories of a dataset's trials, whether or not they hold tokens."""

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from wmo_distill.datums.options import Graded
from wmo_distill.disk import is_directory
from wmo_distill.errors import ReadFault, UsageError
from wmo_distill.exporters.files import EXPORT, RowFiles, commit, difference
from wmo_distill.exporters.options import ExportOptions
from wmo_distill.files import Absent, TrialFiles, text_path
from wmo_distill.limits import TooLarge
from wmo_distill.outputs.parts import writing
from wmo_distill.predicates import is_measured
from wmo_distill.progress import Listener, Progress
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.shards.scan import iter_batches
from wmo_distill.sources.harbor.episodes import (
    EpisodePlace,
    episode_places,
    read_documents,
    step_root,
)
from wmo_distill.sources.harbor.messages import Chat, ChatFlag, Message, read_chats

_COLUMNS = (
    "episode_id", "trial_name", "artifact_dir", "step_name", "step_index", "task_id", "group_id",
    "attempt", "model_name", "reward", "reward_valid", "passed", "stop_reason", "completion",
    "infra_failed", "issues",
)  # fmt: skip
_IDENTITY = (
    "episode_id", "trial_name", "step_name", "task_id", "group_id", "attempt", "model_name",
    "reward", "passed", "stop_reason", "completion",
)  # fmt: skip

_COUNTS = ("records", "exported", "rows", "replies", "unweighted", "parsed", "with_images")


class NoChat(StrEnum):
    """Why a record gave no chat."""

    FILTERED = "filtered"
    TRAJECTORY_MISSING = "trajectory_missing"
    TRAJECTORY_UNREADABLE = "trajectory_unreadable"
    NO_REPLIES = "no_replies"
    IO_ERROR = "io_error"
    """The system did not give the trial's files."""


class MessageSummary(BaseModel):
    """records == exported + all refused; a record of several histories gives several rows."""

    model_config = ConfigDict(frozen=True)

    target: str
    records: int = 0
    exported: int = 0
    rows: int = 0
    replies: int = 0
    """Messages of the assistant to train on: those without weight 0."""
    unweighted: int = 0
    """Messages of the assistant with weight 0: copied, not sampled, or not fully recorded."""
    parsed: int = 0
    """Rows whose replies are recorded as text and tool calls, not as the model wrote them."""
    with_images: int = 0
    """Rows of which an image was left out."""
    flags: dict[ChatFlag, int] = Field(default_factory=dict)
    """Rows with each flag: what of their chat is not as the model had it."""
    refused: dict[NoChat, int] = Field(default_factory=dict)
    files: list[str] = Field(default_factory=list)


def sharegpt(messages: list[Message]) -> list[Message]:
    """The same as `from` and `value`; tool calls follow the text, each a line of JSON.

    Such a line is `{"name": "run", "arguments": {"a": 1}}`.
    """
    names = {"system": "system", "user": "human", "assistant": "gpt", "tool": "tool"}
    kept = ("reasoning_content", "weight")
    found = []
    for message in messages:
        lines = [message["content"]] if message["content"] else []
        lines += [_call_line(call["function"]) for call in message.get("tool_calls", ())]
        said = {"from": names[message["role"]], "value": "\n".join(lines)}
        found.append({**said, **{key: message[key] for key in kept if key in message}})
    return found


def _call_line(function: Mapping[str, str]) -> str:
    name = json.dumps(function["name"], ensure_ascii=False)
    return f'{{"name": {name}, "arguments": {function["arguments"]}}}'


FORMS: dict[str, tuple[str, str, Callable[[list[Message]], list[Message]]]] = {
    "messages": ("chats as text, role and content, as JSON lines", "messages", lambda m: m),
    "sharegpt": ("chats as text, from and value, as JSON lines", "conversations", sharegpt),
}
"""For each form: what it is, the key of its list, and how it is made."""


def export_messages(
    source: Path | str,
    out: Path | str,
    to: str = "messages",
    options: ExportOptions | None = None,
    *,
    progress: Listener | None = None,
    **changes: Any,
) -> MessageSummary:
    """Write the chats of the dataset in `source`; its trials must be where they were built from.

    `changes` are fields of `ExportOptions`. UsageError for an unknown form, a source that is no
    dataset, or an `out` that is something else.
    """
    source, out = Path(source), Path(out)
    options = ExportOptions.of(options, **changes)
    if to not in FORMS:
        raise UsageError(f"--to: expected one of {', '.join(FORMS)}, found {to!r}; give another")
    if options.assume_mode:
        raise UsageError(
            f"--assume: expected a target of sequences, found --to {to}: chats hold no "
            "log-probabilities; leave it out"
        )
    _, key, form = FORMS[to]
    manifest = read_manifest(source)
    parent = text_path(manifest.parent)
    if not is_directory(parent):
        raise UsageError(
            f"{manifest.parent}: expected the trials that the dataset was built from, found no "
            "directory; chats are read from their trajectories: put them back there"
        )
    counts = dict.fromkeys(_COUNTS, 0)
    refused: dict[NoChat, int] = {}
    flags: dict[ChatFlag, int] = {}
    differs = partial(difference, to, options)
    with writing(out, EXPORT, fresh=options.fresh, differs=differs) as parts:
        with RowFiles(parts, None) as files:
            for row in iter_batches(source, _COLUMNS, methodcaller("to_pylist")):
                counts["records"] += 1
                found = _chats(parent, row, options.only)
                if isinstance(found, NoChat):
                    refused[found] = refused.get(found, 0) + 1
                    continue
                counts["exported"] += 1
                for number, chat in enumerate(found):
                    counts["rows"] += 1
                    counts["replies"] += chat.replies
                    counts["unweighted"] += chat.unweighted
                    counts["parsed"] += chat.parsed
                    counts["with_images"] += chat.images
                    for flag in sorted(chat.flags):
                        flags[flag] = flags.get(flag, 0) + 1
                    said = {
                        key: form(chat.messages),
                        **{k: row[k] for k in _IDENTITY},
                        "chat": number,
                        "replies": chat.replies,
                        "unweighted": chat.unweighted,
                        "parsed": chat.parsed,
                        "images": chat.images,
                        "flags": sorted(chat.flags),
                    }
                    files.add(said, sum(len(m["content"]) for m in chat.messages) // 4)
                if progress is not None:
                    outcomes = {"exported": counts["exported"]}
                    progress(
                        Progress(
                            done=counts["records"],
                            total=manifest.totals.records,
                            unit="records",
                            outcomes=outcomes | {str(reason): n for reason, n in refused.items()},
                            parts=len(parts.parts),
                        )
                    )
        names = [part.file for part in parts.parts]
        summary = MessageSummary(target=to, flags=flags, refused=refused, files=names, **counts)
        commit(parts, manifest.dataset_hash, options.recorded(), summary)
    return summary


def _chats(parent: Path, row: Mapping[str, Any], only: Graded | None) -> list[Chat] | NoChat:
    measured = is_measured(
        row["reward"],
        row["reward_valid"],
        infra_failed=row["infra_failed"],
        issues=row["issues"] or (),
    )
    if only is not None and not only.wants(measured=measured, passed=row["passed"]):
        return NoChat.FILTERED
    files = TrialFiles(parent / text_path(row["artifact_dir"]))
    try:
        chats = read_chats(files, _agent_dir(files, row))
    except ReadFault:
        return NoChat.IO_ERROR
    except TooLarge:
        return NoChat.TRAJECTORY_UNREADABLE
    if chats is Absent.MISSING:
        return NoChat.TRAJECTORY_MISSING
    if isinstance(chats, Absent):
        return NoChat.TRAJECTORY_UNREADABLE
    return [chat for chat in chats if chat.replies] or NoChat.NO_REPLIES


def _agent_dir(files: TrialFiles, row: Mapping[str, Any]) -> str:
    place = EpisodePlace(None, root=step_root(row["step_name"]))
    if row["step_name"] is not None and not files.is_dir(place.directory("agent")):
        # The files of a step that was interrupted are elsewhere; only the result says which it is.
        places = episode_places(read_documents(files, extra=False))
        place = next((p for p in places if p.step_index == row["step_index"]), place)
    return place.directory("agent")
