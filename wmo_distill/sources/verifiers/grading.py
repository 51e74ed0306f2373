"""How a rollout was graded: scores by name, and their weighted sum."""

from collections.abc import Mapping, Sequence
from typing import Any

from wmo_distill.issues import Issue
from wmo_distill.sources.evidence import GradeEvidence
from wmo_distill.sources.values import is_number
from wmo_distill.sources.verifiers.fields import text_in


def grade_of(
    trace: Mapping[str, Any], errors: Sequence[Mapping[str, Any]], *, failed: bool
) -> GradeEvidence:
    """Scores by name, and the package's total: the sum of score x weight, where all are there."""
    recorded = trace.get("rewards")
    rewards: dict[str, object] = {}
    issues: list[Issue] = []
    total: float | None = 0.0
    for name, reward in recorded.items() if isinstance(recorded, dict) else ():
        score, weight = reward, 1
        if isinstance(reward, dict):
            score, weight = reward.get("score"), reward.get("weight", 1)
        if score is None:
            issues.append(Issue.REWARDS_PARTIAL)
            total = None
        elif not is_number(score):
            issues.append(Issue.REWARD_NOT_NUMBER)
            total = None
        else:
            rewards[name] = score
            sound = is_number(weight)
            issues += [Issue.REWARD_NOT_NUMBER] * (not sound)
            if sound and weight != 1:
                rewards[f"{name}.weight"] = weight
            total = _plus(total, score, weight) if sound else None
    if not rewards and not issues:
        issues.append(Issue.REWARDS_MISSING)
    dropped = trace.get("dropped")
    late = trace.get("stop_condition") == "scoring_timeout"
    spoiled = failed or late or dropped is not None or Issue.REWARDS_PARTIAL in issues
    note = text_in(errors[-1].get("type")) if errors else None
    return GradeEvidence(
        rewards=rewards,
        reward_issues=tuple(issues),
        recorded_valid=not spoiled,
        total=total if rewards else None,
        has_total=True,
        note=f"dropped: {dropped}" if dropped is not None else note or "",
    )


def total_of(rewards: Mapping[str, float]) -> float | None:
    """The package's total from the column `rewards`: {"a": 1.0, "a.weight": 0.5} gives 0.5."""
    total: float | None = 0.0 if rewards else None
    for name, score in rewards.items():
        if name.removesuffix(".weight") == name or name.removesuffix(".weight") not in rewards:
            total = _plus(total, score, rewards.get(f"{name}.weight", 1))
    return total


def _plus(total: float | None, score: Any, weight: Any) -> float | None:
    try:
        return None if total is None else total + float(score) * float(weight)
    except OverflowError:
        return None
