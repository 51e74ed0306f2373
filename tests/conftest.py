"""What all tests share: the settings of the property tests, signals as a terminal has them, and
a dataset of the real trials.
"""

import signal
from pathlib import Path

import pytest

from tests.effort import load_profile
from wmo_distill import build

load_profile()

# A shell starts background jobs, and `nohup` its command, with signals ignored, and processes that
# a test starts would inherit that.
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        at_first = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, at_first)


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of the real trials; not to be changed."""
    out = tmp_path_factory.mktemp("dataset") / "shards"
    build([Path(__file__).parents[1] / "fixtures/trials"], out, workers=1)
    return out
