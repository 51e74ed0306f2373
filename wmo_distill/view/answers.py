"""What the page asks, and the answers: values for JSON, nothing of HTTP."""

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from wmo_distill.datums.chats import chats_of
from wmo_distill.datums.manifest import read_datum_manifest
from wmo_distill.decoding import Decoder
from wmo_distill.decoding.recorded import doubt_of
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.files import path_text, text_path
from wmo_distill.report.words import RECORDS, SEQUENCES
from wmo_distill.shards.find import Place, read_at
from wmo_distill.shards.scan import scan
from wmo_distill.shards.schema import SCHEMA
from wmo_distill.shards.selection import chosen
from wmo_distill.stats.compare import stats_of
from wmo_distill.view import trial_files
from wmo_distill.view.apart import apart
from wmo_distill.view.episode import about, tokens
from wmo_distill.view.flat import Flat, first_difference, flat_of
from wmo_distill.view.index import GRADES, SORTED
from wmo_distill.view.opened import Dataset, NothingCommitted, Opened
from wmo_distill.view.sequences import Sequences, with_sequences
from wmo_distill.visible import visible, visible_start

_NUMBER = re.compile(r"-?[0-9]{1,18}")
MOST_TOKENS = 5_000
"""Of one answer."""
_KEPT_EPISODES = 6
_KEPT_BYTES = 48_000_000


class Episode(NamedTuple):
    """What is kept of an episode."""

    flat: Flat
    about: dict[str, Any]
    doubt: str | None
    """Why the tokenizer cannot be the one of its ids, which are then shown as ids."""


class NotFound(DistillError):  # noqa: N818 - the answer to a question
    """There is no such episode or file."""


class Answers:
    """A dataset that builds may change meanwhile; questions may come from several threads."""

    def __init__(
        self,
        out: Path,
        datums: Path | None = None,
        decoder: Decoder | None = None,
        *,
        trusted: bool = False,
        show_secrets: bool = False,
    ) -> None:
        """UsageError for directories that are neither; `trusted` says that the decoder is right."""
        self._dataset = Dataset(out)
        self._datums = datums
        self._sequences = None if datums is None else Sequences(datums)
        self._decoder, self._trusted, self._show_secrets = decoder, trusted, show_secrets
        self._reading, self._counting = Lock(), Lock()
        self._kept: OrderedDict[tuple[str, str], Episode] = OrderedDict()
        self._stats: tuple[object, dict[str, Any]] | None = None

    def begin(self) -> None:
        """Read the index before anybody asks; faults are said to who asks."""
        with suppress(DistillError):
            self._dataset.read(lambda opened: None)

    def state(self) -> dict[str, Any]:
        """Whether anything is committed, and a mark that another commit changes."""
        mark = self._dataset.mark()
        parts = self._dataset.whole_parts()
        return {"mark": mark, "committed": mark is not None, "building_parts": parts}

    def start(self) -> dict[str, Any]:
        """What the page needs once: names, numbers of the dataset, words of the filters."""
        return {
            "name": _name(self._dataset.out),
            "datums": None if self._datums is None else _name(self._datums),
            "text": self._decoder is not None,
            "sorted": SORTED,
            "grades": tuple(GRADES),
            "words": {"records": RECORDS, "datums": SEQUENCES},
            **self.state(),
            **self._when_committed(self._numbers, {"episodes": 0, "facets": {}}),
        }

    def episodes(self, asked: Mapping[str, str]) -> dict[str, Any]:
        """A page of the list; UsageError for a `where` that is none."""

        def answer(opened: Opened) -> dict[str, Any]:
            only = _chosen(opened, self._dataset.out, asked.get("where", ""))
            start, n = _number(asked, "start", 0), _number(asked, "n", 100)
            page = opened.index.page(asked, start, n, only)
            every = opened.index.frame.height
            return {"mark": opened.mark, "of": every, "found": page.found, "rows": page.rows}

        return self._when_committed(answer, {"mark": None, "of": 0, "found": 0, "rows": []})

    def episode(self, episode_id: str) -> dict[str, Any]:
        """What the page of an episode shows, but its tokens."""

        def answer(opened: Opened) -> dict[str, Any]:
            episode = self._episode(opened, episode_id)
            return {
                "mark": opened.mark,
                **episode.about,
                "unlikely": self._with_text(episode),
                "has_text": self._decoder is not None and episode.doubt is None,
                "doubt": episode.doubt and visible(episode.doubt),
                "others": opened.index.siblings(episode_id),
                "datums_of_other_rows": self._is_other(opened),
            }

        return self._dataset.read(answer)

    def tokens(self, episode_id: str, asked: Mapping[str, str]) -> dict[str, Any]:
        """A slice of an episode's tokens, a list for each thing that is known of them."""
        first = _number(asked, "start", 0)
        stop = _number(asked, "stop", first + MOST_TOKENS)
        episode = self._dataset.read(lambda opened: self._episode(opened, episode_id))
        start = max(0, min(first, len(episode.flat)))
        stop = max(start, min(stop, start + MOST_TOKENS, len(episode.flat)))
        decoder = None if episode.doubt is not None else self._decoder
        return tokens(episode.flat, start, stop, decoder)

    def difference(self, one: str, other: str) -> dict[str, Any]:
        """Where the main chats of two episodes differ first, and where what they sampled does.

        `at` and `sampled` hold a position in each, null where nothing differs.
        """
        both = self._dataset.read(lambda opened: [self._episode(opened, n) for n in (one, other)])
        lines = [episode.flat for episode in both]
        return {
            "at": first_difference(*lines),
            "sampled": first_difference(*lines, sampled=True),
        }

    def files(self, episode_id: str) -> dict[str, Any]:
        """The files below a trial's directory."""
        return self._dataset.read(
            lambda opened: trial_files.listing(opened.manifest, self._directory(opened, episode_id))
        )

    def file(self, episode_id: str, asked: Mapping[str, str]) -> trial_files.Piece:
        """A piece of one of them."""
        path = asked.get("path", "")
        found = self._dataset.read(
            lambda opened: trial_files.piece(
                opened.manifest,
                self._directory(opened, episode_id),
                path,
                _number(asked, "start", 0),
            )
        )
        if found is None:
            raise NotFound(f"{path}: expected a file of the trial, found none; reload the list")
        return found

    def stats(self, asked: Mapping[str, str]) -> dict[str, Any]:
        """What `stats --json` prints of the dataset, or with `of=datums` of the sequences."""
        place = self._datums if asked.get("of") == "datums" else self._dataset.out
        if place is None:
            raise NotFound("--datums: expected training sequences, found none given; start again")
        where = asked.get("where", "").strip() or None

        def answer(opened: Opened) -> dict[str, Any]:
            key = opened.mark, place, where
            if self._stats is None or self._stats[0] != key:
                self._stats = key, apart(_stats, (place, where))
            return self._stats[1]

        with self._counting:
            return self._dataset.read(answer)

    def _numbers(self, opened: Opened) -> dict[str, Any]:
        return {
            "mark": opened.mark,
            "episodes": opened.index.frame.height,
            "facets": opened.index.facets(),
            "trials": opened.manifest.totals.found,
            "tool_version": opened.manifest.tool_version,
        }

    def _when_committed(self, question: Any, before: dict[str, Any]) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self._dataset.read(question)
        except NothingCommitted:
            return before
        return answer

    def _with_text(self, episode: Episode) -> list[dict[str, Any]]:
        """The least likely tokens, with the text of each where there is one."""
        decoder = None if episode.doubt is not None else self._decoder
        marks = episode.flat.marks

        def text(at: int, token: int) -> str | None:
            if decoder is None:
                return None
            return visible_start(marks.get(at) or decoder.text_of(token) or "", 40)

        return [{**one, "text": text(one["at"], one["id"])} for one in episode.about["unlikely"]]

    def _is_other(self, opened: Opened) -> bool:
        """Whether DATUMS were made from other rows than those that are served."""
        if self._datums is None:
            return False
        return read_datum_manifest(self._datums).source != opened.manifest.dataset_hash

    def _directory(self, opened: Opened, episode_id: str) -> str:
        return _found(opened.index.place(episode_id), episode_id).artifact_dir

    def _read(self, place: Place, parent: str) -> Episode:
        record = read_at(place, extra=False)
        decoder, why = self._decoder, None
        if decoder is not None and not self._trusted:
            why = doubt_of(decoder, record, text_path(parent))
        chats = chats_of(record, None if decoder is None or why else decoder.text)
        flat = flat_of(record, chats)
        if self._show_secrets:
            flat = replace(flat, marks={})
        if self._sequences is not None:
            flat = with_sequences(flat, chats, self._sequences.of(place.episode_id))
        return Episode(flat, about(record, flat), why)

    def _episode(self, opened: Opened, episode_id: str) -> Episode:
        """An episode; those asked for last are kept."""
        key = opened.mark, episode_id
        with self._reading:
            if key not in self._kept:
                place = _found(opened.index.place(episode_id), episode_id)
                self._kept[key] = self._read(place, opened.manifest.parent)
            self._kept.move_to_end(key)
            while len(self._kept) > 1 and (
                len(self._kept) > _KEPT_EPISODES
                or sum(one.flat.nbytes for one in self._kept.values()) > _KEPT_BYTES
            ):
                self._kept.popitem(last=False)
            return self._kept[key]


def _stats(of: tuple[Path, str | None]) -> dict[str, Any]:
    place, where = of
    return stats_of(place, where=where).model_dump(mode="json")


def _name(path: Path) -> str:
    """What a person calls a directory."""
    return visible_start(path_text(path.absolute().name), 100)


def _found(place: Place | None, episode_id: str) -> Place:
    if place is None:
        raise NotFound(
            f"{episode_id}: expected an episode of the dataset, found none; go back to the list"
        )
    return place


def _chosen(opened: Opened, out: Path, where: str) -> pl.Expr | None:
    """Whether an SQL expression over the columns of the rows is true, for the rows of the index."""
    if not where.strip():
        return None
    light, ids = opened.index.frame, []

    def read(columns: Sequence[str]) -> list[pa.RecordBatch]:
        at_hand = set(columns) <= set(light.columns)
        rows = light.lazy() if at_hand else scan(out)
        found = rows.select(list({"episode_id", *columns})).collect()
        ids.append(found["episode_id"])
        batches: list[pa.RecordBatch] = found.to_arrow().to_batches()
        return batches

    mask = chosen(where, SCHEMA, read)
    return pl.col("episode_id").is_in(ids[0].filter(pl.Series(mask)).implode())


def _number(asked: Mapping[str, str], name: str, default: int) -> int:
    text = asked.get(name, "")
    if not text:
        return default
    if _NUMBER.fullmatch(text) is None:
        raise UsageError(f"{name}: expected a whole number, found {text!r:.40}")
    return int(text)
