"""A JSON document of a trial, with its token lists already read into arrays.

The parsed value has rows (see `rows`) in the place of the lists under `prompt_token_ids`,
`completion_token_ids` and `logprobs`, where harnesses keep them: lists of rows in the entries of
`rollout_details`, one row in the `metrics` of a trajectory's step. All else is as `json.loads`
gives it. A document outside the fast grammar is read the plain way, with the same answer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.sources.harbor.plain import (
    LIST_KEYS,
    one_row,
    read_result_lists,
    read_step_lists,
    rollout_entries,
    step_metrics,
)
from wmo_distill.tokenjson.numbers import NotFlat, NotText
from wmo_distill.tokenjson.scan import scan
from wmo_distill.tokenjson.skeleton import CutList, Skeleton


@dataclass(frozen=True, slots=True)
class Document:
    """A readable JSON document; `slow` says that the fast reader left it to the plain one."""

    value: Any
    slow: bool = False


def known_version(document: Any) -> bool:
    """Whether a result or config is of the form that we know: `schema_version` absent, or 1."""
    if not isinstance(document, dict) or "schema_version" not in document:
        return True
    version = document["schema_version"]
    return type(version) is int and version == 1


def has_known_form(result: Any) -> bool:
    """Whether a result, and the config in it, are of the form that we know."""
    config = result.get("config") if isinstance(result, dict) else None
    return known_version(result) and known_version(config)


def read_result(
    files: TrialFiles, relative: str = "result.json", *, extra: bool = False
) -> Document | Absent:
    """A trial result; the entries of its `rollout_details` hold lists of rows.

    Large elements in the lists of their `extra` may be `Written`, with their text if `extra`.
    """
    return _read(files, relative, _put_result_lists, read_result_lists, extra=extra)


def read_trajectory_file(
    files: TrialFiles, relative: str, *, unread: bool = False
) -> Document | Absent:
    """An ATIF file; the `metrics` of its steps hold rows.

    With `unread` most of them may be UNREAD_IDS and UNREAD_LOGPROBS, never the first prompt.
    """
    if unread:
        read = _read_fast(files, relative, _put_step_lists, read_numbers=False)
        if read is not None:
            return read
    return _read(files, relative, _put_step_lists, read_step_lists)


def _read(
    files: TrialFiles,
    relative: str,
    put: Callable[[Any, Skeleton], int],
    plain: Callable[[Any], None],
    *,
    extra: bool | None = None,
) -> Document | Absent:
    read = _read_fast(files, relative, put, extra=extra)
    if read is not None:
        return read
    value = files.read_json(relative)
    if isinstance(value, Absent):
        return value
    plain(value)
    return Document(value, slow=True)


def _read_fast(
    files: TrialFiles,
    relative: str,
    put: Callable[[Any, Skeleton], int],
    *,
    read_numbers: bool = True,
    extra: bool | None = None,
) -> Document | Absent | None:
    """None for a document outside the fast grammar."""
    opened = files.open(relative)
    if isinstance(opened, Absent):
        return opened
    with opened:
        try:
            skeleton = scan(opened, numbers=read_numbers, extra=extra)
            value = files.parse(skeleton.text)
            if not isinstance(value, Absent) and put(value, skeleton) == skeleton.cut:
                return Document(value)
        except NotFlat:
            pass
        except NotText:
            return Absent.UNREADABLE
    return None


def _put_result_lists(value: Any, skeleton: Skeleton) -> int:
    """Put what was cut out where its placeholders are; gives how much found its place."""
    used = 0
    for entry in rollout_entries(value):
        for key in LIST_KEYS:
            found = _cut(entry.get(key), key, skeleton)
            if found is None:
                continue
            if found.flat:
                raise NotFlat
            entry[key] = found.rows
            used += 1
        used += _put_extras(entry.get("extra"), skeleton)
    return used


def _put_extras(extra: Any, skeleton: Skeleton) -> int:
    if not skeleton.extras or not isinstance(extra, dict):
        return 0
    used = 0
    for elements in extra.values():
        for index, value in enumerate(elements if isinstance(elements, list) else ()):
            if isinstance(value, str) and (found := skeleton.extras.get(value)) is not None:
                elements[index] = found
                used += 1
    return used


def _put_step_lists(value: Any, skeleton: Skeleton) -> int:
    used = 0
    for metrics in step_metrics(value):
        for key in LIST_KEYS:
            if key not in metrics:
                continue
            found = _cut(metrics[key], key, skeleton)
            if found is None:
                metrics[key] = one_row(key, metrics[key])
            elif found.flat:
                metrics[key] = found.rows[0]
                used += 1
            elif not found.rows:
                metrics[key] = one_row(key, [])
                used += 1
            else:
                raise NotFlat
    return used


def _cut(value: Any, key: str, skeleton: Skeleton) -> CutList | None:
    """The list that was cut out here; a list that was not cut out is outside the fast grammar."""
    found = skeleton.lists.get(value) if isinstance(value, str) else None
    if isinstance(value, list) or (found is not None and found.key != key):
        raise NotFlat
    return found
