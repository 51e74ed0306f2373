"""What all tests share: the settings of the property tests."""

from tests.effort import load_profile

load_profile()
