"""Plants each fault, and lets `check-logprobs` ask the model over HTTP: `python -m tests.proof`."""

import tempfile
from pathlib import Path

from tests.proof.faults import PLANTED, STUDENT, datums, sampled
from tests.proof.server import serve
from wmo_distill.scorers.check import check_logprobs
from wmo_distill.scorers.http import Endpoint, VllmScorer
from wmo_distill.scorers.report import CheckReport

# The others are in `tests/proof/faults.py`, and all of them in `make test`.
SHOWN = (
    "temperature unlabelled",
    "temperature unlabelled, recorded after it",
    "min-p unlabelled",
    "0.6, top-p, top-k, recorded after them",
    "repetition penalty",
    "base-10 logarithms",
    "flipped sign",
    "all zeros",
    "one chat in sixteen late",
    "stripped thinking",
    "missing BOS",
    "other ids",
)


def line(name: str, report: CheckReport) -> str:
    said = report.fitted or (f"by {report.shift:+d}" if report.shift else "")
    said = said or " ".join(report.episodes)
    difference = f"{report.mean_abs_difference:.3f}"
    return f"{name:<43}{difference:>10}  {report.verdict:<14}{said}".rstrip()


def main() -> None:
    print(f"{'planted':<43}{'difference':>10}  named")  # noqa: T201
    with tempfile.TemporaryDirectory() as scratch:
        places = {
            "nothing": datums(Path(scratch) / "clean", sampled(0)),
            **{name: datums(Path(scratch) / name, PLANTED[name][1](0)) for name in SHOWN},
        }
        for name, place in places.items():
            with serve(STUDENT) as server:
                report = check_logprobs(place, VllmScorer(Endpoint(server.url), "student"))
            print(line(name, report))  # noqa: T201
        with serve(STUDENT.moved(0.15)) as server:
            scorer = VllmScorer(Endpoint(server.url), "student")
            print(line("stale weights", check_logprobs(places["nothing"], scorer)))  # noqa: T201


if __name__ == "__main__":
    main()
