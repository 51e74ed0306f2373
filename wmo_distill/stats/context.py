"""How the context grows: the length of prompts at turn 1, 2, ... of the main chats."""

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from wmo_distill.stats.calls import MainCalls

# Every turn up to 24, then each 16 % after the one before: 28, 32, 38, ... 10,000.
TURNS: NDArray[np.int64] = np.unique(
    np.concatenate([np.arange(1, 25), np.geomspace(24, 10_000, 41).round()]).astype(np.int64)
)


class ContextAt(BaseModel):
    """Tokens of the prompt of one turn, over the `episodes` that got so far."""

    model_config = ConfigDict(frozen=True)

    turn: int
    episodes: int
    p10: float
    p50: float
    p90: float


class ContextGrowth:
    """The prompts of at most 64 turns of each episode."""

    def __init__(self) -> None:
        self._turns: list[NDArray[np.int32]] = []
        self._prompts: list[NDArray[np.int32]] = []

    def add(self, calls: MainCalls) -> None:
        shown = np.isin(calls.turn, TURNS)
        self._turns.append(calls.turn[shown].astype(np.int32))
        self._prompts.append(calls.prompt[shown].astype(np.int32))

    def points(self) -> tuple[ContextAt, ...]:
        if not self._turns:
            return ()
        turns, prompts = np.concatenate(self._turns), np.concatenate(self._prompts)
        points = []
        for turn in np.unique(turns).tolist():
            at = prompts[turns == turn]
            p10, p50, p90 = np.quantile(at, (0.1, 0.5, 0.9)).tolist()
            points.append(ContextAt(turn=turn, episodes=at.size, p10=p10, p50=p50, p90=p90))
        return tuple(points)
