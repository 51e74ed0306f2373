"""Small runs of each command that writes a directory; processes of their own import them too."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from wmo_distill.datums import writer
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.datums.verify import verify_datums
from wmo_distill.exporters import files
from wmo_distill.exporters.run import export_datums
from wmo_distill.exporters.verify import verify_export
from wmo_distill.outputs.faults import Fault
from wmo_distill.scorers import calls, run
from wmo_distill.scorers.cache import ScoreCache
from wmo_distill.scorers.scorer import Score
from wmo_distill.scorers.verify import verify_scores
from wmo_distill.tokens import Ids

STEPS = ("replace", "unlink", "open", "mkdir", "fsync")


class Teacher:
    """Answers with a function of the ids."""

    tokenizer = None

    async def score(self, token_ids: Ids, top_k: int) -> Score:
        return Score(np.r_[np.nan, -(token_ids[1:] % 7 + 1.0)])

    async def close(self) -> None:
        pass


def datums(source: Path, out: Path) -> None:
    build_datum_shards(source / "shards", out)


def export(source: Path, out: Path) -> None:
    export_datums(source / "datums", out, "tinker-sft")


def export_parquet(source: Path, out: Path) -> None:
    export_datums(source / "datums", out, "trl-sft")


def score(source: Path, out: Path, teacher: str = "t") -> None:
    run.score_datums(source / "datums", ScoreCache(out), Teacher(), teacher, concurrency=1)


WORKS: dict[str, Callable[[Path, Path], None]] = {
    work.__name__: work for work in (datums, export, export_parquet, score)
}


VERIFY: dict[str, Callable[[Path], list[Fault]]] = {
    "datums": verify_datums,
    "export": verify_export,
    "export_parquet": verify_export,
    "score": verify_scores,
}


def small(patch: Callable[[Any, str, Any], None] = setattr) -> None:
    """Several parts of everything, cut where no clock has a say."""
    patch(writer, "GROUP_TOKENS", 150)
    patch(writer, "PART_TOKENS", 300)
    patch(files, "FILE_TOKENS", 300)
    patch(run, "PART_TOKENS", 200)
    patch(calls, "KEEP_SECONDS", 1e9)


def killed_at(n: int) -> None:
    """This process is killed instead of its n-th step on the file system."""
    done = 0

    def step(real: Callable[..., Any]) -> Callable[..., Any]:
        def act(*args: Any, **more: Any) -> Any:
            nonlocal done
            if done >= n:
                os.kill(os.getpid(), signal.SIGKILL)
            done += 1
            return real(*args, **more)

        return act

    for name in STEPS:
        setattr(os, name, step(getattr(os, name)))


if __name__ == "__main__":
    small()
    killed_at(int(sys.argv[4]))
    WORKS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
