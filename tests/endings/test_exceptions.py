"""The table of exception types."""

import pytest

from wmo_distill.records import StopReason
from wmo_distill.trials.exceptions import KNOWN_TYPES, Phase, has_valid_reward, meaning


def test_every_type_has_one_meaning_that_fits_its_phase() -> None:
    for kind in KNOWN_TYPES:
        known = meaning(kind)
        assert known is not None
        phase, reason = known
        assert (reason is None) == (phase is Phase.VERIFIER)
        assert (reason is StopReason.NOT_RUN) == (phase is Phase.SETUP)
        if phase is not Phase.AGENT:
            assert not has_valid_reward(kind)


@pytest.mark.parametrize("module", ["litellm.exceptions", "openai", "a.b.c"])
def test_a_module_before_the_name_changes_nothing(module: str) -> None:
    for kind in KNOWN_TYPES:
        assert meaning(f"{module}.{kind}") == meaning(kind)
        assert has_valid_reward(f"{module}.{kind}") == has_valid_reward(kind)


@pytest.mark.parametrize(
    ("kind", "valid"),
    [
        # As Harbor 0.26 wrote them next to these exceptions.
        ("AgentTimeoutError", True),
        ("ContextLengthExceededError", True),
        ("AttributeError", True),
        ("ValidationError", True),
        ("InternalServerError", False),
        ("RateLimitError", False),
        ("AuthenticationError", False),
        ("EnvironmentStartTimeoutError", False),
        ("AgentSetupTimeoutError", False),
        ("VerifierTimeoutError", False),
        ("RewardFileNotFoundError", False),
        ("RewardFileEmptyError", False),
        ("VerifierOutputParseError", False),
        ("CancelledError", False),
        # Nothing knows this one.
        ("SomethingNewError", True),
        ("", True),
    ],
)
def test_whether_a_reward_next_to_it_counts(kind: str, valid: bool) -> None:
    assert has_valid_reward(kind) is valid


@pytest.mark.parametrize("kind", ["RuntimeError", "ValueError", "", "ratelimiterror"])
def test_types_that_are_not_known(kind: str) -> None:
    assert meaning(kind) is None
