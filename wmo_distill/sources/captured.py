"""What recorders in front of a model share: their own names in paths, and sampling by call."""

import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from wmo_distill.arguments import CHECKS
from wmo_distill.arrays import NO_IDS, Ids
from wmo_distill.declare import COLUMNS
from wmo_distill.files import plain_text
from wmo_distill.sources.base import Folder, FoundTrial
from wmo_distill.sources.evidence import SamplingEvidence
from wmo_distill.tokenjson.extras import json_text

_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def name_in_path(*parts: object) -> str:
    """Recorded names as one part of a path, another for each; a part that is null is empty."""
    return ":".join("" if part is None else _quoted(part) for part in parts)


def episode_in(kind: str, folder: Folder, name: str, label: str, locator: object) -> FoundTrial:
    """An episode of a file that holds several, by its own name in the file."""
    path = f"{folder.below(name)}#{label}"
    return FoundTrial(
        source=kind,
        root=folder.path / name,
        path=path,
        trial_id=path,
        trial_name=label,
        locator=locator,
    )


def damaged_store(kind: str, folder: Folder, name: str) -> FoundTrial:
    """A database of calls that cannot be looked into: one row of the ledger, and no episode."""
    return FoundTrial(
        source=kind, root=folder.path / name, path=folder.below(name), trial_name=name, is_sure=True
    )


def _quoted(part: object) -> str:
    text = quote(plain_text(str(part)), safe="+=, ")
    return text if text.strip(".") else text.replace(".", "%2E")


def columns_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Those that a column holds."""
    return {name: arguments[name] for name in COLUMNS if name in arguments}


def distinct(asked: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The distinct values of each argument of some calls, in order; null and NaN record nothing.

    Numbers are equal by value, true is not 1; lists and objects are equal by their JSON text.
    """
    found: dict[str, dict[object, Any]] = {}
    for arguments in asked:
        for name, value in arguments.items():
            if value is None or (isinstance(value, float) and math.isnan(value)):
                continue
            plain = isinstance(value, str | int | float)
            key = (type(value) is bool, value) if plain else json_text(value)
            found.setdefault(name, {}).setdefault(key, value)
    return {name: tuple(values.values()) for name, values in found.items()}


def own_sampling(arguments: Mapping[str, Any], values: Mapping[str, Sequence[Any]]) -> str | None:
    """The arguments of a call of whose distinct `values` there are several, as JSON.

    A policy version is no argument: it is kept with the sampled ids.
    """
    own = {
        name: arguments[name]
        for name in sorted(arguments)
        if len(values.get(name, ())) > 1 and name != "policy_version"
    }
    return json_text(own) if own else None


def of_sampling(request: Mapping[str, Any]) -> dict[str, Any]:
    """What of a request is sampling: not its messages, which every request repeats."""
    return {n: value for n, value in request.items() if n in CHECKS or n in COLUMNS}


def sampling_by_call(
    asked: Sequence[Mapping[str, Any]],
) -> tuple[SamplingEvidence, list[str | None]]:
    """(the arguments of an episode's calls, and for each call those that others have otherwise)."""
    found = distinct(asked)
    same = {name: values[0] for name, values in found.items() if len(values) == 1}
    texts = [own_sampling(arguments, found) for arguments in asked]
    return SamplingEvidence(in_calls=columns_of(found), asked=same), texts


class Roots:
    """Calls without coordinates, by the first call that each goes back to, as the tokens tell.

    A call's parent is the one whose prompt and sampled ids are the longest start of its prompt.
    """

    def __init__(self) -> None:
        self._ends: dict[int, dict[int, int]] = {}
        """By length and digest of prompt and sampled ids: the root."""
        self._sizes: list[int] = []
        """The lengths, ascending."""

    def add(self, number: int, prompt: Ids | None, answers: Sequence[Ids | None]) -> int:
        """The root of a call; calls are given in order of time."""
        if prompt is None or not prompt.size:
            return number
        digests = _digests(prompt)
        root = number
        sizes = self._sizes[: bisect_right(self._sizes, prompt.size)]
        ends = digests[np.array(sizes, np.intp) - 1].tolist()
        for size, digest in zip(reversed(sizes), reversed(ends), strict=True):
            known = self._ends[size].get(digest)
            if known is not None:
                root = known
                break
        for ids in answers:
            whole = np.concatenate([prompt, NO_IDS if ids is None else ids])
            if whole.size not in self._ends:
                insort(self._sizes, whole.size)
            self._ends.setdefault(whole.size, {})[int(_digests(whole)[-1])] = root
        return root


def _digests(ids: Ids) -> NDArray[np.uint64]:
    """A digest of each start of a list of ids, to 64 bits."""
    values = ids.astype(np.uint64) + np.uint64(1)
    values *= _FACTOR
    values ^= values >> np.uint64(29)
    powers = np.full(ids.size, _FACTOR | np.uint64(1), np.uint64)
    powers = np.multiply.accumulate(powers, dtype=np.uint64)
    return np.cumsum(values * powers, dtype=np.uint64)
