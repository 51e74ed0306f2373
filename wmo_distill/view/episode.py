"""An episode for its page: what it is, its calls and breaks, and slices of its tokens."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB
from wmo_distill.decoding import Decoder
from wmo_distill.issues import meaning_of
from wmo_distill.records import TrialRecord
from wmo_distill.shards.encode import row_json
from wmo_distill.view.flat import Flat
from wmo_distill.view.text import texts
from wmo_distill.visible import visible_start

_UNLIKELY = 100
_TEXT = 4_000
"""Characters of one value of the record."""
_HIDDEN = ("spans", "segments", "issues", "secrets")


def about(record: TrialRecord, flat: Flat) -> dict[str, Any]:
    """Everything but the tokens."""
    row = {**row_json(replace(record, spans=())), **asdict(record.counts)}
    return {
        "episode_id": record.episode_id,
        "tokens": len(flat),
        "main_stop": flat.main_stop,
        "record": {k: _readable(v) for k, v in row.items() if k not in _HIDDEN},
        "measured": record.measured,
        "segments": _readable(row["segments"]),
        "issues": [
            {"code": code, "n": row["issues"].count(code), "meaning": meaning_of(code)}
            for code in dict.fromkeys(row["issues"])
        ],
        "calls": [asdict(call) for call in flat.calls],
        "versions": [visible_start(version, 200) for version in flat.versions],
        "unlikely": _unlikely(flat),
        "sequences": flat.sequences,
        "colours": _colours(flat),
    }


def tokens(flat: Flat, start: int, stop: int, decoder: Decoder | None) -> dict[str, Any]:
    """Lists for the tokens from `start` to `stop`; what is known of none of them is left out."""
    here = slice(start, stop)
    found: dict[str, Any] = {
        "start": start,
        "stop": stop,
        "ids": flat.ids[here],
        "sampled": flat.sampled[here],
        "call": flat.call[here],
    }
    for name, values in {"logprobs": flat.logprobs, **flat.of_datums}.items():
        if values.dtype.kind != "f" or np.isfinite(values[here]).any():
            found[name] = values[here]
    if (flat.version[here] >= 0).any():
        found["version"] = flat.version[here]
    if flat.masked[here].any():
        found["masked"] = flat.masked[here]
    if decoder is not None:
        found["text"], found["kind"] = texts(decoder, flat, start, stop)
    return found


def _unlikely(flat: Flat) -> list[dict[str, Any]]:
    return [
        {"at": at, "id": int(flat.ids[at]), "logprob": float(flat.logprobs[at])}
        for at in flat.unlikely(_UNLIKELY)
    ]


def _colours(flat: Flat) -> dict[str, Any]:
    """By what the tokens can be coloured, and the size that most values stay below."""
    found: dict[str, Any] = {}
    usable = np.isfinite(flat.logprobs) & (flat.logprobs > IMPLAUSIBLE_LOGPROB)
    if usable.any():
        found["logprob"] = 1.0
    values = flat.of_datums
    if values:
        found["mask"] = 1.0
    if "advantages" in values:
        found["advantage"] = _reach(values["advantages"])
    if flat.versions:
        found["version"] = 1.0
    if "rescored_logprobs" in values:
        found["rescored"] = 1.0
    if "teacher_logprobs" in values:
        found["teacher"] = 1.0
    return found


def _reach(values: Any) -> float:
    """The 98 % quantile of their sizes, of those that are not 0."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    return float(np.quantile(sizes, 0.98)) if sizes.size else 1.0


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return visible_start(value, _TEXT)
    if isinstance(value, dict):
        return {visible_start(k, 200): _readable(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_readable(v) for v in value[:200]]
    return value
