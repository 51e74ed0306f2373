"""Datums in small parts and row groups, for readers of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.proof.chats import chat, dataset, record
from tests.proof.lm import LanguageModel
from wmo_distill.datums import writer
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.shards import build_datum_shards


@pytest.fixture(scope="session")
def small_parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """46 sequences in a dozen parts; those of 5 episodes have no advantages."""
    place = tmp_path_factory.mktemp("parts")
    write_datums(place / "d", count=46)
    return place / "d"


def write_datums(out: Path, count: int, seed: int = 0) -> None:
    """Datums of `count` chats; every ninth has no valid reward, so no advantage."""
    rng = np.random.default_rng(seed)
    records = [record(chat(LanguageModel(), rng, tokens=4), n) for n in range(count)]
    records[4::9] = [replace(one, reward_valid=False) for one in records[4::9]]
    source = out.parent / f"shards-{seed}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "PART_TOKENS", 120)
        patch.setattr(writer, "GROUP_TOKENS", 50)
        build_datum_shards(
            dataset(source, records), out, DatumOptions(advantages="centered"), fresh=True
        )
