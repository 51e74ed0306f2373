"""How hard the property tests try: the same examples every time, or random ones at length.

`make test` draws the examples from each test's own name: a green suite stays green until the code
or a test changes. `make fuzz-properties` searches at random, FUZZ_EXAMPLES times where `make test`
tries 250 times and in proportion elsewhere. What it finds is printed as the arguments of the test;
keep it there as an `@example`.
"""

import os

from hypothesis import settings

FUZZ_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
_USUAL = 250


def examples(usual: int) -> int:
    """How many examples a test with `usual` examples in `make test` tries now."""
    return max(1, usual * FUZZ_EXAMPLES // _USUAL) if FUZZ_EXAMPLES else usual


def load_profile() -> None:
    """Make the settings of this run the ones of every test; no test fails for being slow."""
    settings.register_profile(
        "test", deadline=None, derandomize=True, database=None, max_examples=100
    )
    settings.register_profile("fuzz", deadline=None, print_blob=True, max_examples=examples(100))
    settings.load_profile("fuzz" if FUZZ_EXAMPLES else "test")
