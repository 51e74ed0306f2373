"""Every target by name."""

from wmo_distill.errors import UsageError
from wmo_distill.exporters import areal, nemo_rl, prime_rl, skyrl, slime, tinker, trl, verl
from wmo_distill.exporters.target import Target

_HOMES = (tinker, prime_rl, slime, trl, verl, skyrl, nemo_rl, areal)
TARGETS: dict[str, Target] = {t.name: t for home in _HOMES for t in home.TARGETS}


def target_named(name: str) -> Target:
    """UsageError for a name that no target has."""
    if name not in TARGETS:
        raise UsageError(
            f"--to: expected one of {', '.join(sorted(TARGETS))}, found {name!r}; give another"
        )
    return TARGETS[name]
