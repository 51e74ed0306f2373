"""What all tests share: `make test` tries the same examples every time, `make fuzz` new ones.

A profile holds for every property test, also for one with `@settings(max_examples=...)`: that may
say how many examples, never which ones, and no test fails for being slow.
"""

from hypothesis import HealthCheck, settings

_NEVER_SLOW = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fixed", derandomize=True, database=None, **_NEVER_SLOW)
# What fails is kept in .hypothesis/ and tried first the next time.
settings.register_profile("fuzz", derandomize=False, print_blob=True, **_NEVER_SLOW)
settings.load_profile("fixed")
