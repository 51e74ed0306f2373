"""transformers' own `generate` as the sampler: a witness that is not ours. `make test-trainers`."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.proof.chats import Turn
from tests.proof.faults import datums
from tests.proof.test_settings import SETTINGS, said
from wmo_distill.arrays import Ids
from wmo_distill.records import LogprobMode
from wmo_distill.scorers.check import check_logprobs
from wmo_distill.scorers.scorer import Score
from wmo_distill.scorers.verdict import Verdict

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

RUNS = int(os.environ.get("CLEAN_RUNS", "20"))
VOCABULARY = 512


@pytest.fixture(scope="module")
def model() -> Any:
    """A small Llama with random weights, sure enough of itself to be like a model."""
    torch.manual_seed(0)
    made = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=256,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
            initializer_range=0.3,
        )
    ).eval()
    made.lm_head.weight.data *= 2.0
    return made


class Forward:
    """One pass over the whole sequence; with `bos` the server puts a token of its own first."""

    tokenizer = None

    def __init__(self, model: Any, bos: int | None = None) -> None:
        self._model, self._bos = model, bos

    async def score(self, token_ids: Ids, top_k: int) -> Score:
        before = [] if self._bos is None else [self._bos]
        ids = torch.tensor([*before, *token_ids.tolist()])
        with torch.no_grad():
            rows = torch.log_softmax(self._model(ids[None]).logits[0].float(), -1)
        rows = rows[len(before) : -1]
        own = rows.gather(1, ids[len(before) + 1 :, None])[:, 0].double()
        values, names = rows.double().topk(min(top_k, VOCABULARY))
        pairs = zip(names.tolist(), values.tolist(), strict=True)
        top = [None, *(list(zip(n, v, strict=True)) for n, v in pairs)]
        return Score(np.array([np.nan, *own.tolist()]), top)

    async def close(self) -> None:
        pass


def generated(model: Any, seed: int, n: int, mode: str, **how: Any) -> list[list[Turn]]:
    """Two turns a chat; raw values are of `output_logits`, processed ones of `output_scores`."""
    torch.manual_seed(1000 + seed)
    history = torch.randint(0, VOCABULARY, (n, 8))
    found: list[list[Turn]] = [[] for _ in range(n)]
    for _ in range(2):
        answer = model.generate(
            history,
            attention_mask=torch.ones_like(history),
            do_sample=True,
            max_new_tokens=16,
            return_dict_in_generate=True,
            output_scores=True,
            output_logits=True,
            pad_token_id=0,
            **{"temperature": 1.0, "top_k": 0, "top_p": 1.0} | how,
        )
        ids = answer.sequences[:, history.shape[1] :]
        steps = answer.scores if mode == "processed" else answer.logits
        values = [
            torch.log_softmax(step.float(), -1).gather(1, ids[:, at, None])[:, 0].double()
            for at, step in enumerate(steps)
        ]
        table = torch.stack(values, 1)
        for row in range(n):
            found[row].append(Turn(history[row].tolist(), ids[row].tolist(), table[row].tolist()))
        history = torch.cat([answer.sequences, torch.randint(0, VOCABULARY, (n, 3))], 1)
    return found


@pytest.mark.parametrize("mode", ["raw", "processed"])
@pytest.mark.parametrize("name", SETTINGS)
def test_clean_runs_agree(model: Any, tmp_path: Path, name: str, mode: str) -> None:
    how = SETTINGS[name]
    for seed in range(RUNS):
        chats = generated(model, seed, 8, mode, **how)
        place = datums(tmp_path / str(seed), chats, LogprobMode(mode), **said(how))
        report = check_logprobs(place, Forward(model), concurrency=1)
        assert report.verdict is Verdict.AGREES, (seed, report)
        assert report.mean_abs_difference < 1e-3


@pytest.mark.parametrize("mode", ["raw", "processed"])
@pytest.mark.parametrize("name", SETTINGS)
def test_no_wrong_fault_is_named(model: Any, tmp_path: Path, name: str, mode: str) -> None:
    how = SETTINGS[name]

    def verdict(kind: str, scorer: Forward, **more: Any) -> Verdict:
        chats = generated(model, 7, 12, mode, **how | more)
        place = datums(tmp_path / kind, chats, LogprobMode(mode), **said(how))
        return check_logprobs(place, scorer, concurrency=1).verdict

    assert verdict("bos", Forward(model, bos=3)) is Verdict.UNEXPLAINED
    penalised = verdict("penalty", Forward(model), repetition_penalty=1.3)
    allowed = {Verdict.PENALTY, Verdict.UNEXPLAINED} | (
        {Verdict.AGREES} if mode == "raw" else set()
    )
    assert penalised in allowed
    other = 1.3 if how.get("temperature", 1.0) != 1.0 else 0.6
    tempered = {Verdict.TEMPERATURE, Verdict.UNEXPLAINED}
    assert verdict("temperature", Forward(model), temperature=other) in tempered
