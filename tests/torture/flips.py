"""Bits flipped in everything that we write: `verify` sees each, and no reader gives other rows."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.written import Verify, outputs
from tests.torture.attack import Try, times
from wmo_distill.datums.dataset import iter_datums
from wmo_distill.errors import DistillError
from wmo_distill.exporters.run import export_datums
from wmo_distill.exporters.verify import verify_export
from wmo_distill.scorers.cache import ScoreCache
from wmo_distill.shards.scan import scan

FLIPS = 3000


def attack(effort: float, place: Path) -> Iterator[Try]:
    """A try for each flip, and one for each kind of thing that must not be."""
    counts = flips(place, times(FLIPS, effort))
    yield from [Try("flips")] * counts["flips"]
    yield from (Try("flips", f"{fault}: {counts[fault]} times") for fault in problems(counts))


def flips(folder: Path, number: int, seed: int = 0) -> Counter[str]:
    """What became of so many flips, spread evenly over the files of every kind of directory."""
    made = {name: (verify, out) for name, (_, verify, out) in outputs(folder).items()}
    export_datums(folder / "datums", folder / "tables", "trl-sft")
    made["tables"] = verify_export, folder / "tables"
    files = [
        (name, verify, out, file)
        for name, (verify, out) in made.items()
        for file in sorted(path for path in out.rglob("*") if path.is_file())
    ]
    rng, counts = random.Random(seed), Counter[str]()
    sound = {name: rows(name, out) for name, (_, out) in made.items()}
    for at in range(number):
        name, verify, out, file = files[at % len(files)]
        whole = file.read_bytes()
        place, bit = rng.randrange(len(whole)), rng.randrange(8)
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
        counts["flips"] += 1
        counts["seen" if is_seen(verify, out) else f"UNSEEN in {file.name}, {place}.{bit}"] += 1
        counts[after(name, out, sound[name])] += 1
        file.write_bytes(whole)
    return counts


def is_seen(verify: Verify, out: Path) -> bool:
    try:
        return bool(verify(out))
    except DistillError:
        return True


def rows(name: str, out: Path) -> Any:
    """What the readers of a directory give; nothing of ours reads an export."""
    if name == "dataset":
        return scan(out).collect().to_dicts()
    if name == "datums":
        return [
            (row.datum_id, row.datum.token_ids.tolist(), row.weight) for row in iter_datums(out)
        ]
    if name == "scores":
        cache = ScoreCache(out)
        return repr([cache.get(*key) for key in sorted(cache._places)])
    return None


def after(name: str, out: Path, sound: Any) -> str:
    """How reading ends: an error of ours, or rows, which have to be those that were written."""
    try:
        found = rows(name, out)
    except DistillError:
        return "refused by the reader"
    if name == "scores" and found != sound:
        return "left out by the reader"  # and reported by it
    return "read as written" if found == sound else f"OTHER ROWS of {name}"


def problems(counts: Counter[str]) -> Iterator[str]:
    """Those that must not be."""
    return (name for name in counts if name.isupper() or name.split()[0].isupper())
