"""Where the rows of a rollouts file are, and whose they are; no token is read."""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from wmo_distill.disk import RegularFile
from wmo_distill.files import NO_STATE, Absent, FilesState, TrialFiles
from wmo_distill.limits import TEXT_BYTES
from wmo_distill.sources.growth import NO_MARK, Mark, mark_of

END_BYTES = 1 << 16
_SIGN = re.compile(rb'"(responses_create_params|_ng_(task|rollout)_index|_ng_rollout_id)"\s*:')
_WHOLE = re.compile(rb"\s*:\s*(\d{1,18})\s*[,}]")
_TEXT = re.compile(rb'\s*:\s*"([A-Za-z0-9][A-Za-z0-9._-]{0,254})"\s*[,}]')
# The inputs that Gym writes next to a rollouts file are as its rows, without these.
_OUTCOME = re.compile(rb'"(response|reward|_ng_failure_class)"\s*:')
_FAILURE = re.compile(rb'"_ng_failure_class"\s*:\s*"')


@dataclass(frozen=True, slots=True)
class RowPlace:
    """One line of a rollouts file."""

    file: str
    """Its name in the directory."""
    number: int
    """Of the line, from 0."""
    start: int
    size: int
    rollout: str | None
    """The rollout id; None where none can be made out."""
    failed: bool = False
    mark: Mark = NO_MARK
    whole: FilesState = NO_STATE
    """Of the file, from before it was looked into."""


def is_rollouts_file(files: TrialFiles, name: str) -> bool:
    """Whether the first or last bytes of a file look like rows of Gym, damaged or not."""
    state = files.stat(name)
    ends = {0} if state is None else {0, max(0, state.st_size - END_BYTES)}
    found = [files.read(name, END_BYTES, start) for start in sorted(ends)]
    return any(not isinstance(part, Absent) and _SIGN.search(part) for part in found)


def rows_of(files: TrialFiles, name: str) -> tuple[RowPlace, ...]:
    """The lines of a rollouts file, one without an outcome or an id too; none if no line is a row.

    A line that is being written, or broke off, is one that cannot be read, until it is whole.
    """
    whole = files.state_of((name,))
    opened = files.open(name)
    if isinstance(opened, Absent):
        return ()
    places = []
    is_rows = False
    for number, start, line in lines_of(opened):
        outcome = _OUTCOME.search(line) is not None
        rollout = _rollout_of(line) if outcome else None
        is_rows |= rollout is not None or (outcome and _SIGN.search(line) is not None)
        failed = _FAILURE.search(line) is not None
        mark = mark_of(line)
        places.append(RowPlace(name, number, start, len(line), rollout, failed, mark, whole))
    return tuple(places) if is_rows else ()


def lines_of(opened: RegularFile) -> Iterator[tuple[int, int, bytes]]:
    """(number, offset, line with its end) of the lines that are not blank; one in memory.

    Of a line that is too long the start, and then the rest as other lines.
    """
    start = number = 0
    with io.BufferedReader(opened, 1 << 16) as file:
        while True:
            try:
                line = file.readline(TEXT_BYTES)
            except MemoryError:
                return
            if not line:
                return
            if line.strip():
                yield number, start, line
            start += len(line)
            number += 1


def rollout_id(task: int, rollout: int, attempt: int) -> str:
    """How Gym names a rollout that has no id of its own."""
    return f"{task}-{rollout}" + (f"-a{attempt}" if attempt else "")


def _rollout_of(line: bytes) -> str | None:
    own = _last(line, b'"_ng_rollout_id"', _TEXT)
    if own is not None:
        return own
    task = _last(line, b'"_ng_task_index"', _WHOLE)
    rollout = _last(line, b'"_ng_rollout_index"', _WHOLE)
    if task is None or rollout is None:
        return None
    attempt = _last(line, b'"_ng_attempt_index"', _WHOLE)
    return rollout_id(int(task), int(rollout), int(attempt or 0))


def _last(line: bytes, key: bytes, value: re.Pattern[bytes]) -> str | None:
    """The value behind the last occurrence of a key: the collector appends its own keys."""
    at = line.rfind(key)
    found = value.match(line, at + len(key)) if at >= 0 else None
    return found[1].decode() if found else None
