"""The sequences that most tests of scorers ask about."""

from pathlib import Path

import numpy as np
import pytest

from tests.proof.chats import chat, dataset, record
from tests.proof.lm import LanguageModel
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.records import LogprobMode, Sampling


@pytest.fixture(scope="session")
def datums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    place = tmp_path_factory.mktemp("scores")
    chats = [chat(LanguageModel(), rng, breaks=n % 3 == 0) for n in range(12)]
    sampling = Sampling(logprob_mode=LogprobMode.RAW, tokenizer="student-1")
    # The last is the first again: equal sequences are scored once.
    records = [
        record(turns, n, sampled_with=sampling) for n, turns in enumerate([*chats, chats[0]])
    ]
    build_datum_shards(dataset(place / "shards", records), place / "datums")
    return place / "datums"
