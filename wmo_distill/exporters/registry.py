"""Every target by name."""

from wmo_distill.errors import UsageError
from wmo_distill.exporters import areal, nemo_rl, skyrl, tinker, verl
from wmo_distill.exporters.target import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        *tinker.TARGETS,
        *verl.TARGETS,
        *skyrl.TARGETS,
        *nemo_rl.TARGETS,
        *areal.TARGETS,
    )
}


def target_named(name: str) -> Target:
    """UsageError for a name that no target has."""
    if name not in TARGETS:
        raise UsageError(
            f"--to: expected one of {', '.join(sorted(TARGETS))}, found {name!r}; give another"
        )
    return TARGETS[name]
