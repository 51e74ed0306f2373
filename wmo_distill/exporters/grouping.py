"""How trainers compare the rows of a group, and the groups that a trainer would compare wrongly."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from wmo_distill.datums.dataset import DatumRow
from wmo_distill.exporters.target import Grouping, Place, group_name, prompt_tokens

_NAMED = 100


class GroupReason(StrEnum):
    """Why a trainer would compare the rows of a group wrongly."""

    SIZE = "size"
    """It takes runs of a fixed number of rows, and this group has another number than most."""
    PROMPT = "prompt"
    """It takes rows of one prompt, and the prompts of this group differ."""


class OddGroup(BaseModel):
    """A group that the trainer would compare wrongly."""

    model_config = ConfigDict(frozen=True)

    group: str
    reason: GroupReason
    rows: int
    episodes: int
    prompts: int
    """Different prompts among its rows."""


class GroupSummary(BaseModel):
    """The groups and episodes among exported rows."""

    model_config = ConfigDict(frozen=True)

    episodes: int = 0
    split_episodes: int = 0
    """Episodes that are several rows."""
    groups: int = 0
    usual_rows: int | None = None
    """The number of rows that most groups have, the larger of two; where that matters."""
    odd_groups: int = 0
    """Groups that the trainer would compare wrongly."""
    odd: list[OddGroup] = Field(default_factory=list)
    """The first hundred of them."""


@dataclass(slots=True)
class _Group:
    name: str
    rows: int = 0
    episodes: set[int] = field(default_factory=set)
    prompts: set[bytes] = field(default_factory=set)


class GroupCounts:
    """Sums as rows are exported."""

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping
        self._groups: dict[int, _Group] = {}
        self._episodes = self._split = 0

    def add(self, row: DatumRow, place: Place) -> None:
        if place.step == 0:
            self._episodes += 1
            self._split += place.sequences > 1
        group = self._groups.setdefault(place.group, _Group(group_name(row)))
        group.rows += 1
        group.episodes.add(place.episode)
        if self._grouping is Grouping.PROMPT:
            prompt = np.ascontiguousarray(row.datum.token_ids[: prompt_tokens(row)], "<i4")
            group.prompts.add(hashlib.sha256(prompt.data).digest())

    def summary(self) -> GroupSummary:
        sizes = Counter(group.rows for group in self._groups.values())
        usual = max(sizes, key=lambda rows: (sizes[rows], rows), default=None)
        fixed = self._grouping is Grouping.FIXED
        odd = [
            OddGroup(
                group=group.name,
                reason=reason,
                rows=group.rows,
                episodes=len(group.episodes),
                prompts=len(group.prompts),
            )
            for group in self._groups.values()
            for reason, found in (
                (GroupReason.SIZE, fixed and group.rows != usual),
                (GroupReason.PROMPT, len(group.prompts) > 1),
            )
            if found
        ]
        return GroupSummary(
            episodes=self._episodes,
            split_episodes=self._split,
            groups=len(self._groups),
            usual_rows=usual if fixed else None,
            odd_groups=len(odd),
            odd=odd[:_NAMED],
        )


def in_groups(rows: Iterable[Mapping[str, Any]], key: str) -> list[Mapping[str, Any]]:
    """The rows with those of a group side by side; groups in the order of their first row."""
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return [row for members in groups.values() for row in members]
