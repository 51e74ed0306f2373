"""From sampling to every trainer's rows: each trained token has the model's own log-probability.

The model's value for a token depends on the whole prefix, so a token, a log-probability or a mask
that is one place off, or next to another history, is another number.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import wmo_distill
from tests.proof.chats import Turn, chat
from tests.proof.lm import LanguageModel
from tests.proof.trials import write_sink, write_trial
from wmo_distill.datums.dataset import iter_datums
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.exporters.registry import TARGETS
from wmo_distill.exporters.run import export_datums
from wmo_distill.options import BuildOptions

STUDENT = LanguageModel()
Ids = list[int]


@pytest.fixture(scope="module")
def chats() -> list[list[Turn]]:
    """Clean ones, and ones with prefix breaks, summaries and turns that sampled nothing."""
    rng = np.random.default_rng(42)
    return [chat(STUDENT, rng, turns=5, breaks=n % 4 != 0) for n in range(24)]


@pytest.fixture(scope="module")
def jobs(chats: list[list[Turn]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("proof")
    for number, turns in enumerate(chats):
        trial = write_trial(place / "jobs/job", number, turns)
        write_sink(place / "sinks", trial, turns)
    return place


@pytest.fixture(scope="module", params=["result", "sinks"])
def datums(request: pytest.FixtureRequest, jobs: Path, chats: list[list[Turn]]) -> Path:
    sinks = jobs / "sinks" if request.param == "sinks" else None
    out = jobs / request.param
    options = BuildOptions(declare={"logprob_mode": "raw"}, sinks=sinks)
    wmo_distill.build([jobs / "jobs"], out / "shards", options, workers=1)
    summary = build_datum_shards(
        out / "shards", out / "datums", DatumOptions(advantages="centered")
    )
    assert summary.stats.loss_tokens == sum(len(t.sampled) for turns in chats for t in turns)
    assert summary.stats.breaks, "there are breaks among them"
    return out / "datums"


def check(ids: Ids, trained: list[bool], logprobs: list[float], kind: type = np.float64) -> None:
    """Each trained token's value is the model's, bit for bit in the form's own precision."""
    model = STUDENT.logprobs(ids).astype(kind)
    for at in np.flatnonzero(trained).tolist():
        assert kind(logprobs[at]) == model[at], f"position {at} of {len(ids)}"


def test_the_check_sees_an_off_by_one(datums: Path) -> None:
    row = next(iter_datums(datums))
    ids, mask = row.datum.token_ids.tolist(), row.datum.loss_mask.tolist()
    logprobs = row.datum.sampled_logprobs.tolist()
    check(ids, mask, logprobs)
    for wrong in (
        (ids[1:] + ids[:1], mask, logprobs),
        (ids, mask[-1:] + mask[:-1], logprobs),
        (ids, mask, logprobs[1:] + logprobs[:1]),
        ([(ids[0] + 1) % 97, *ids[1:]], mask, logprobs),
    ):
        with pytest.raises(AssertionError):
            check(*wrong)


def test_datums(datums: Path) -> None:
    trained = 0
    for row in iter_datums(datums):
        datum = row.datum
        check(datum.token_ids.tolist(), datum.loss_mask.tolist(), datum.sampled_logprobs.tolist())
        trained += datum.loss_tokens
    assert trained > 500


def split(prompt: str, response: str, mask: str, logprobs: str) -> Callable[[Any], Any]:
    """Reads rows whose response has lists of its own."""

    def read(row: Any) -> Any:
        before = row[prompt]
        pad = len(before)
        return (
            before + row[response],
            [False] * pad + [bool(x) for x in row[mask]],
            [0.0] * pad + [x or 0.0 for x in row[logprobs]],
        )

    return read


def tinker(row: Any) -> Any:
    (chunk,) = row["model_input"]["chunks"]
    inputs = row["loss_fn_inputs"]
    targets = inputs["target_tokens"]["data"]
    assert chunk["tokens"][1:] == targets[:-1]
    trained = [a != 0 for a in inputs.get("weights", inputs.get("advantages"))["data"]]
    values = inputs["logprobs"]["data"] if "logprobs" in inputs else None
    return (
        [chunk["tokens"][0], *targets],
        [False, *trained],
        None if values is None else [0.0, *values],
    )


def slime(row: Any) -> Any:
    pad = len(row["tokens"]) - row["response_length"]
    return (
        row["tokens"],
        [False] * pad + [bool(x) for x in row["loss_mask"]],
        [0.0] * pad + row["rollout_log_probs"],
    )


def nemo(row: Any) -> Any:
    ids: Ids = []
    mask: list[bool] = []
    logprobs: list[float] = []
    for message in row["message_log"]:
        n = len(message["token_ids"])
        spoken = message["role"] == "assistant"
        assert spoken == ("generation_logprobs" in message)
        ids += message["token_ids"]
        mask += [spoken] * n
        logprobs += message.get("generation_logprobs", [0.0] * n)
    return ids, mask, logprobs


def areal(row: Any) -> Any:
    return row["input_ids"], [bool(x) for x in row["loss_mask"]], row.get("logprobs")


READERS: dict[str, tuple[Callable[[Any], Any], type]] = {
    "tinker": (tinker, np.float32),
    "tinker-sft": (tinker, np.float32),
    "prime-rl": (lambda r: (r["token_ids"], r["mask"], r["logprobs"]), np.float64),
    "slime": (slime, np.float64),
    "trl-sft": (lambda r: (r["input_ids"], [x != -100 for x in r["labels"]], None), float),
    "verl": (
        split("prompt_ids", "response_ids", "response_mask", "response_logprobs"),
        np.float64,
    ),
    "skyrl": (
        split("prompt_token_ids", "response_ids", "loss_masks", "rollout_logprobs"),
        np.float64,
    ),
    "nemo-rl": (nemo, np.float64),
    "areal": (areal, np.float32),
    "areal-sft": (areal, np.float32),
    "trl-grpo": (split("prompt_ids", "completion_ids", "env_mask", "logprobs"), np.float64),
}


def test_every_target_has_a_reader() -> None:
    assert set(READERS) == set(TARGETS)


@pytest.mark.parametrize("name", READERS)
def test_exported_rows(datums: Path, tmp_path: Path, name: str) -> None:
    read, kind = READERS[name]
    summary = export_datums(datums, tmp_path / "x", name)
    assert summary.exported == summary.datums
    wanted = [row.datum for row in iter_datums(datums)]
    rows: list[Any] = []
    for file in summary.files:
        if file.endswith(".jsonl"):
            rows += [json.loads(line) for line in (tmp_path / "x" / file).open()]
        else:
            rows += pl.read_parquet(tmp_path / "x" / file).to_dicts()
    assert len(rows) == len(wanted)
    for row, datum in zip(rows, wanted, strict=True):
        ids, trained, logprobs = read(row)
        assert ids == datum.token_ids.tolist()
        if name != "tinker":  # there an advantage of 0 is the mask, and one may be 0 by itself
            assert trained == datum.loss_mask.tolist()
        assert not (np.array(trained) & ~datum.loss_mask).any()
        if logprobs is not None:
            check(ids, trained, logprobs, kind)
