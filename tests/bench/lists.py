"""Each way to read the text of one list of numbers, in nanoseconds a number: medians of one run.

`numpy` is with its proof for ids, and without one for log-probabilities.

python -m tests.bench.lists
"""

import json
import random
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np

from wmo_distill.tokenjson import numbers
from wmo_distill.tokenjson.rows import id_row, logprob_row

SIZES = (10, 200, 5_000, 100_000)
SEPARATORS = {"one a line": ",\n" + 24 * " ", "in a line": ", "}
ROUNDS = 9
Way = Callable[[bytes], object]


def ways(kind: str) -> dict[str, Way]:
    """How a list may be read, by name; what is not installed is left out."""
    plain = id_row if kind == "ids" else logprob_row
    found: dict[str, Way] = {"json": lambda text: plain(json.loads(b"[%b]" % text))}
    if kind == "ids":
        found["orjson"] = lambda text: numbers._orjson_ids(b"[%b]" % text)
        found["numpy"] = numbers._numpy_ids
    else:
        found["orjson"] = without_simdjson(numbers.read_logprobs)
        found["numpy"] = lambda text: np.fromstring(text, np.float64, sep=",")
    if numbers.simdjson is not None:
        read = numbers._simdjson_ids if kind == "ids" else numbers._simdjson_logprobs
        found["pysimdjson"] = lambda text: read(b"[%b]" % text)
    found["ours[fast]"] = numbers.read_ids if kind == "ids" else numbers.read_logprobs
    found["ours"] = without_simdjson(found["ours[fast]"])
    return found


def without_simdjson(read: Way) -> Way:
    simdjson = numbers.simdjson

    def reads(text: bytes) -> object:
        numbers.simdjson = None
        try:
            return read(text)
        finally:
            numbers.simdjson = simdjson

    return reads


def lists() -> Iterator[tuple[str, str, int, bytes]]:
    """(kind, layout, numbers, text) of each list; the numbers are of a real tokenizer's range."""
    draw = random.Random(0)
    for kind in ("ids", "log-probabilities"):
        for layout, separator in SEPARATORS.items():
            for size in SIZES:
                values = [
                    draw.randrange(150_000) if kind == "ids" else -draw.expovariate(1)
                    for _ in range(size)
                ]
                yield kind, layout, size, separator.join(map(repr, values)).encode()


def seconds(way: Way, text: bytes, times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        way(text)
    return (time.perf_counter() - start) / times


def main() -> None:
    names = list(ways("ids"))
    print("| ns a number | " + " | ".join(names) + " |")  # noqa: T201
    print("| --- |" + " --- |" * len(names))  # noqa: T201
    for kind, layout, size, text in lists():
        measured: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            for name, way in ways(kind).items():
                measured.setdefault(name, []).append(seconds(way, text, 20_000 // size + 1))
        cells = [
            f"{statistics.median(measured[name]) * 1e9 / size:.0f}" if name in measured else "-"
            for name in names
        ]
        print(f"| {size:,} {kind}, {layout} | " + " | ".join(cells) + " |")  # noqa: T201


if __name__ == "__main__":
    main()
