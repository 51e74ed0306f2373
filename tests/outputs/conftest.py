"""A dataset and its datums, which the works of these tests read."""

from pathlib import Path

import numpy as np
import pytest

from tests.proof.chats import chat, dataset, record
from tests.proof.lm import LanguageModel
from wmo_distill.datums.shards import build_datum_shards


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(5)
    place = tmp_path_factory.mktemp("source")
    chats = [chat(LanguageModel(), rng, breaks=n % 2 == 0) for n in range(12)]
    dataset(place / "shards", [record(turns, n) for n, turns in enumerate(chats)])
    build_datum_shards(place / "shards", place / "datums")
    return place
