"""A JSON document of a trial, with its token lists already read into arrays.

`read_document` gives the parsed value in which the lists under the keys `prompt_token_ids`,
`completion_token_ids` and `logprobs`, at the places where harnesses keep them, are `Rows`
(lists of rows, in `rollout_details`) or a single row (in a trajectory step's `metrics`).
Everything else is as `json.loads` gives it.
"""

from dataclasses import dataclass
from typing import Any

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.sources.plain import read_result_lists, read_step_lists


@dataclass(frozen=True, slots=True)
class Document:
    """A readable JSON document; `slow` says that the fast reader left it to the plain one."""

    value: Any
    slow: bool = False


def read_result(files: TrialFiles, relative: str = "result.json") -> Document | Absent:
    """A trial result; its `rollout_details` entries hold `Rows` in place of token lists."""
    value = files.read_json(relative)
    if isinstance(value, Absent):
        return value
    read_result_lists(value)
    return Document(value, slow=True)


def read_trajectory_file(files: TrialFiles, relative: str) -> Document | Absent:
    """An ATIF file; the `metrics` of its steps hold rows in place of token lists."""
    value = files.read_json(relative)
    if isinstance(value, Absent):
        return value
    read_step_lists(value)
    return Document(value, slow=True)
