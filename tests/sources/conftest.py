"""The runs of NeMo Gym, which several files of tests alter."""

import shutil
from pathlib import Path

import pytest

from tests.sources.recorder_bank import BANK


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    """A copy that tests may alter."""
    return Path(shutil.copytree(BANK / "nemo-gym", tmp_path / "bank"))
