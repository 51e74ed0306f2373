"""A small language model in NumPy whose log-probabilities are exact.

Its state takes in every token of the prefix, so a value at another position, or after another
history, is another value. The same operations in the same order give the same bits.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sampled:
    """What a server would report of one completion."""

    ids: list[int]
    logprobs: list[float]


@dataclass(frozen=True)
class LanguageModel:
    """A random linear recurrence; `seed` is its weights, `sharpness` how sure it is."""

    vocabulary: int = 97
    width: int = 12
    seed: int = 0
    sharpness: float = 2.5
    drift: float = 0.0
    """How far the weights have moved from those of `seed`: stale or newer ones."""

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        mix, embed, out = (
            rng.normal(size=shape)
            for shape in (
                (self.width, self.width),
                (self.vocabulary, self.width),
                (self.vocabulary, self.width),
            )
        )
        moved = np.random.default_rng([self.seed, 1]).normal(size=out.shape)
        # Turned, and shortened a little: what came long before is not forgotten.
        object.__setattr__(self, "_mix", np.linalg.qr(mix)[0] * 0.97)
        object.__setattr__(self, "_embed", embed * 0.25)
        object.__setattr__(
            self, "_out", (out + self.drift * moved) * self.sharpness / math.sqrt(self.width)
        )

    def moved(self, drift: float) -> "LanguageModel":
        """The model after some training."""
        return replace(self, drift=drift)

    def _step(self, state: Floats, token: int) -> Floats:
        return self._mix @ state + self._embed[token]  # type: ignore[attr-defined]

    def _logits(self, state: Floats) -> Floats:
        return self._out @ state  # type: ignore[attr-defined]

    def rows(self, ids: list[int]) -> list[Floats | None]:
        """For each position the log-probabilities of all tokens there; None for the first."""
        state = np.zeros(self.width)
        found: list[Floats | None] = [None]
        for token in ids[:-1]:
            state = self._step(state, token)
            found.append(log_softmax(self._logits(state)))
        return found[: len(ids)]

    def logprobs(self, ids: list[int]) -> Floats:
        """Of each token given those before it; NaN for the first."""
        rows = self.rows(ids)
        return np.array(
            [math.nan if row is None else row[i] for i, row in zip(ids, rows, strict=True)]
        )

    def sample(
        self,
        prompt: list[int],
        n: int,
        rng: np.random.Generator,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        mode: Literal["raw", "processed"] = "raw",
    ) -> Sampled:
        """n tokens after a prompt; `mode` is which log-probabilities are reported."""
        state = np.zeros(self.width)
        for token in prompt:
            state = self._step(state, token)
        ids: list[int] = []
        logprobs: list[float] = []
        for _ in range(n):
            raw = log_softmax(self._logits(state))
            drawn = processed(raw, temperature, top_k)
            token = int(rng.choice(self.vocabulary, p=np.exp(drawn)))
            ids.append(token)
            logprobs.append(float((raw if mode == "raw" else drawn)[token]))
            state = self._step(state, token)
        return Sampled(ids, logprobs)


def log_softmax(logits: Floats) -> Floats:
    highest = logits.max()
    return logits - highest - math.log(np.exp(logits - highest).sum())


def processed(raw: Floats, temperature: float, top_k: int | None) -> Floats:
    """Log-probabilities after temperature and the top-k filter."""
    scaled = raw / temperature
    if top_k is not None:
        kept = np.argsort(-scaled, kind="stable")[:top_k]
        filtered = np.full_like(scaled, -np.inf)
        filtered[kept] = scaled[kept]
        scaled = filtered
    return log_softmax(scaled)
