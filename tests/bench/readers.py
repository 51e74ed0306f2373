"""One measured process: read or build the given trials in one way, and say what it took.

    python readers.py WAY PATH...   prints {"seconds", "peak_kb", "bytes", ...}

Imports are done before the clock starts; peak memory is counted above them.
"""

import contextlib
import json
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Reader = Callable[[Path], Any]
FIXTURE = Path(__file__).parents[2] / "fixtures/trials/01-solved"


def ours() -> Reader:
    from wmo_distill.files import TrialFiles
    from wmo_distill.sources.evidence import Evidence, Identity
    from wmo_distill.sources.harbor.calls import listed_of
    from wmo_distill.sources.harbor.documents import read_result
    from wmo_distill.sources.recorded import Witness
    from wmo_distill.trials.placing import placed_spans

    def read(trial: Path) -> Any:
        value = read_result(TrialFiles(trial)).value  # type: ignore[union-attr]
        listed = listed_of(value["agent_result"]["rollout_details"], Witness())
        return placed_spans(Evidence(identity=Identity(), listed=listed))

    return read


def ours_without_simdjson() -> Reader:
    from wmo_distill.tokenjson import numbers

    numbers.simdjson = None
    return ours()


def reference() -> Reader:
    from wmo.distill.tokens import load_trial_rollout_spans  # type: ignore[import-not-found]

    return lambda trial: load_trial_rollout_spans(trial)


def reference_steps() -> tuple[Reader, Callable[[Any], Any]]:
    """Its records of a trial (spans and stop reason), and its merge of records."""
    from wmo.distill.data import build_datums  # type: ignore[import-not-found]
    from wmo.distill.tokens import (  # type: ignore[import-not-found]
        ScoreCell,
        assemble_harbor_trial_records,
    )

    class Unlimited:
        """Takes the place of its configuration: every limit is out of reach."""

        def __getattr__(self, name: str) -> Any:
            return 10**9 if "tokens" in name or "budget" in name else Unlimited()

    def records(trial: Path) -> Any:
        cell = ScoreCell(task_id="t", attempt=1, reward=1.0, passed=True, artifact_dir=str(trial))
        return assemble_harbor_trial_records([cell], max_turns=10**6)

    return records, lambda found: build_datums(found, Unlimited())


def reference_full() -> Reader:
    """Its spans, its stop reason and its merge."""
    records, merge = reference_steps()
    return lambda trial: merge(records(trial))


def whole(loads: Callable[[bytes], Any]) -> Reader:
    return lambda trial: loads((trial / "result.json").read_bytes())


def plain_json() -> Reader:
    return whole(json.loads)


def orjson_whole() -> Reader:
    import orjson

    return whole(orjson.loads)


def msgspec_whole() -> Reader:
    import msgspec

    return whole(msgspec.json.decode)


def simdjson_whole() -> Reader:
    """Every list to an array, as a trainer would need it."""
    import simdjson  # type: ignore[import-not-found]

    parser = simdjson.Parser()

    def read(trial: Path) -> Any:
        document = parser.parse((trial / "result.json").read_bytes())
        rows = [
            bytes(row.as_buffer(of_type="d" if key == "logprobs" else "i"))
            for entry in document["agent_result"]["rollout_details"]
            for key in ("prompt_token_ids", "completion_token_ids", "logprobs")
            for row in entry[key]
        ]
        del document
        return rows

    return read


def cat() -> Reader:
    buffer = bytearray(1 << 17)

    def read(trial: Path) -> None:
        with open(trial / "result.json", "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass

    return read


WAYS: dict[str, Callable[[], Reader]] = {
    "ours": ours,
    "ours_without_simdjson": ours_without_simdjson,
    "reference": reference,
    "reference_full": reference_full,
    "json": plain_json,
    "orjson": orjson_whole,
    "msgspec": msgspec_whole,
    "simdjson": simdjson_whole,
    "cat": cat,
}


def build(paths: list[Path], workers: int) -> dict[str, Any]:
    """The whole command, with Parquet."""
    from wmo_distill.pipeline.build import build as run

    with tempfile.TemporaryDirectory() as out:
        # What pyarrow imports when it is first used is no part of the work.
        run([FIXTURE], Path(out) / "first", workers=1)
        before = _peak()
        start = time.perf_counter()
        summary = run(paths, Path(out) / "out", workers=workers)
        seconds = time.perf_counter() - start
        stored = sum(p.stat().st_size for p in (Path(out) / "out/parts").iterdir())
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {
        "seconds": seconds,
        "peak_kb": max(_peak() - before, 0) if workers == 1 else children,
        "bytes": summary.bytes_in,
        "stored": stored,
        "tokens": summary.tokens.total + summary.tokens.subagent,
    }


def datums(paths: list[Path], *, parquet: bool) -> dict[str, Any]:
    """Shards, which are read within the time, to training sequences."""
    import wmo_distill
    from wmo_distill.datums.options import DatumOptions
    from wmo_distill.datums.shards import dataset_groups
    from wmo_distill.datums.stream import Funnel, iter_rows

    with tempfile.TemporaryDirectory() as out:
        # What is imported when it is first used is no part of the work.
        wmo_distill.build([FIXTURE], Path(out) / "first", workers=1)
        wmo_distill.build_datum_shards(Path(out) / "first", Path(out) / "warm")
        before, start, cpu = _peak(), time.perf_counter(), time.process_time()
        if parquet:
            stats = wmo_distill.build_datum_shards(paths[0], Path(out) / "datums").stats
        else:
            funnel = Funnel()
            _, groups = dataset_groups(paths[0], DatumOptions())
            for _ in iter_rows(paths[0], DatumOptions(), groups, funnel):
                pass
            stats = funnel.account.stats()
        seconds, busy = time.perf_counter() - start, time.process_time() - cpu
    tokens = stats.loss_tokens + stats.context_tokens
    return {"seconds": seconds, "cpu": busy, "tokens": tokens, "peak_kb": _peak() - before}


def reference_datums(paths: list[Path]) -> dict[str, Any]:
    """Its builder alone, over records that it has read before the clock starts."""
    records, merge = reference_steps()
    found = [record for trial in _trials(paths) for record in records(trial)]
    before, start = _peak(), time.perf_counter()
    merge(found)
    return {"seconds": time.perf_counter() - start, "peak_kb": _peak() - before}


def harbor_export(paths: list[Path]) -> dict[str, Any]:
    """Harbor's own export of traces: the conversations as text, without ids."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    from harbor.utils.traces_utils import export_traces  # type: ignore[import-not-found]

    with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
        export_traces(FIXTURE, use_rich_progress=False)
        before, start = _peak(), time.perf_counter()
        for path in paths:
            export_traces(path, use_rich_progress=False)
    return {"seconds": time.perf_counter() - start, "peak_kb": _peak() - before}


def read(way: str, paths: list[Path]) -> dict[str, Any]:
    """Every trial below the paths, one after the other."""
    trials = _trials(paths)
    reader = WAYS[way]()
    before = _peak()
    start = time.perf_counter()
    for trial in trials:
        reader(trial)
    seconds = time.perf_counter() - start
    size = sum((trial / "result.json").stat().st_size for trial in trials)
    return {"seconds": seconds, "peak_kb": _peak() - before, "bytes": size}


def _trials(paths: list[Path]) -> list[Path]:
    return sorted({p for path in paths for p in path.iterdir() if (p / "agent").is_dir()})


def _peak() -> int:
    """Peak memory of this program in kB; what `getrusage` tells begins before it was started."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s*(\d+)", status.read_text())[1])  # type: ignore[index]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    way, *paths = sys.argv[1:]
    where = [Path(path) for path in paths]
    if way.startswith("build"):
        result = build(where, int(way.removeprefix("build") or 1))
    elif way.startswith("datums"):
        result = datums(where, parquet=way == "datums_parquet")
    elif way == "reference_datums":
        result = reference_datums(where)
    elif way == "harbor_export":
        result = harbor_export(where)
    else:
        result = read(way, where)
    print(json.dumps(result))  # noqa: T201


if __name__ == "__main__":
    main()
