"""prime-rl, slime and TRL: each position of each list, and their own code where installed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.exporters.rows import datum_row
from wmo_distill.exporters.experts import experts_array
from wmo_distill.exporters.files import arrow_table, json_line
from wmo_distill.exporters.prime_rl import training_sample, training_samples
from wmo_distill.exporters.slime import sample, save_rollout
from wmo_distill.exporters.target import Place
from wmo_distill.exporters.trl import SFT_SCHEMA, grpo_row, rollouts, sft_row

PLACE = Place(index=4, episode=2, group=1, step=0, last=True)
RUNS = [(3, 2), (2, 3), (1, 0)]


def written(row: Any) -> Any:
    return json.loads(json_line(row))


def experts(n: int) -> np.ndarray[Any, Any]:
    return np.arange(1, (n - 1) * 6 + 1, dtype=np.uint8).reshape(n - 1, 2, 3)


def test_prime_rl() -> None:
    row = datum_row(RUNS, job="j", changes={"routed_experts": experts(11)})
    datum = row.datum
    got = written(training_sample(row, PLACE))
    assert got["token_ids"] == datum.token_ids.tolist()
    assert got["mask"] == datum.loss_mask.tolist()
    assert got["logprobs"] == datum.sampled_logprobs.tolist()
    assert got["advantages"] == datum.advantages.tolist()
    assert got["temperatures"] == [1.0] * 11, "raw: the trainer must not divide again"
    assert got["env_name"] == "j"
    assert "ref_logprobs" not in got
    after = datum_row(logprob_mode="processed", temperature=0.7)
    assert set(training_sample(after, PLACE)["temperatures"].tolist()) == {0.7}
    (made,) = training_samples([got], dict, dict)
    assert made["routed_experts"]["shape"] == [11, 2, 3]
    assert made["routed_experts"]["data"] == experts(11).tobytes() + bytes(6)
    teacher = np.r_[np.nan, -np.ones(10)]
    scored = datum_row(RUNS, changes={"teacher_logprobs": teacher})
    assert written(training_sample(scored, PLACE))["ref_logprobs"] == [0.0, *[-1.0] * 10]


def test_slime() -> None:
    row = datum_row(RUNS, stop_reason="max_turns", changes={"routed_experts": experts(11)})
    datum = row.datum
    got = written(sample(row, PLACE))
    assert got["tokens"] == datum.token_ids.tolist()
    assert got["response_length"] == 8
    for name in ("loss_mask", "rollout_log_probs"):
        assert len(got[name]) == got["response_length"]
    assert got["loss_mask"] == [1, 1, 0, 0, 1, 1, 1, 0]
    assert got["rollout_log_probs"] == datum.sampled_logprobs[3:].tolist()
    assert (got["status"], got["reward"]) == ("truncated", 1.0)
    assert (got["index"], got["group_index"], got["rollout_id"]) == (4, 1, 2)
    assert got["weight_versions"] == ["7"]
    assert experts_array(got["rollout_routed_experts"]).tolist() == experts(11).tolist()


def test_slime_s_file(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="`make test-trainers` installs it")
    rows = [written(sample(datum_row(episode=f"e{i}"), PLACE)) for i in range(3)]
    assert save_rollout(rows, tmp_path / "0.pt", 0) == 3
    loaded = torch.load(tmp_path / "0.pt", weights_only=False)["samples"]
    assert loaded == rows


def test_trl_sft_through_parquet(tmp_path: Path) -> None:
    row = datum_row(RUNS)
    table = arrow_table([sft_row(row, PLACE)], SFT_SCHEMA)
    pq.write_table(table, tmp_path / "x.parquet")
    (got,) = pq.read_table(tmp_path / "x.parquet").to_pylist()
    mask = row.datum.loss_mask.astype(int).tolist()
    assert got["input_ids"] == row.datum.token_ids.tolist()
    assert set(got) == {"input_ids", "labels"}
    assert got["labels"] == [t if m else -100 for t, m in zip(got["input_ids"], mask, strict=True)]


def test_trl_s_collator(tmp_path: Path) -> None:
    trainer = pytest.importorskip(
        "trl.trainer.sft_trainer", reason="`make test-trainers` installs it"
    )
    datasets = pytest.importorskip("datasets")
    rows = [datum_row(RUNS), datum_row([(2, 2)], episode="e1")]
    table = arrow_table([sft_row(row, PLACE) for row in rows], SFT_SCHEMA)
    pq.write_table(table, tmp_path / "x.parquet")
    loaded = datasets.load_dataset(
        "parquet",
        data_files=str(tmp_path / "x.parquet"),
        cache_dir=str(tmp_path / "cache"),
        split="train",
    )
    batch = trainer.DataCollatorForLanguageModeling(pad_token_id=0)(list(loaded))
    for i, row in enumerate(rows):
        n = row.datum.token_ids.size
        assert batch["input_ids"][i, :n].tolist() == row.datum.token_ids.tolist()
        wanted = np.where(row.datum.loss_mask, row.datum.token_ids, -100)
        assert batch["labels"][i, :n].tolist() == wanted.tolist()
        assert set(batch["labels"][i, n:].tolist()) <= {-100}


def test_trl_grpo() -> None:
    row = datum_row(RUNS)
    got = written(grpo_row(row, PLACE))
    ids = row.datum.token_ids.tolist()
    assert got["prompt_ids"] + got["completion_ids"] == ids
    assert len(got["prompt_ids"]) == 3
    assert len(got["completion_ids"]) == len(got["logprobs"]) == len(got["env_mask"])
    assert got["env_mask"] == row.datum.loss_mask[3:].astype(int).tolist()
    assert rollouts([got, got])["completion_ids"] == [got["completion_ids"]] * 2
