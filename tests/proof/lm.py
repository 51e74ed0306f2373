"""A small language model in NumPy whose log-probabilities are exact.

Its state takes in every token of the prefix, so a value at another position, or after another
history, is another value. The same operations in the same order give the same bits.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

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
        mode: Literal["raw", "processed", "tempered"] = "raw",
        repetition: float = 1.0,
        presence: float = 0.0,
        frequency: float = 0.0,
        **filters: Any,
    ) -> Sampled:
        """n tokens after a prompt; `mode` is which log-probabilities are reported.

        Raw: of the model; tempered: after penalties and temperature; processed: after filters too.
        """
        state = np.zeros(self.width)
        for token in prompt:
            state = self._step(state, token)
        ids: list[int] = []
        logprobs: list[float] = []
        for _ in range(n):
            logits = self._logits(state)
            raw = log_softmax(logits)
            drawn = processed(
                log_softmax(penalised(logits, prompt, ids, repetition, presence, frequency)),
                **filters,
            )
            token = int(rng.choice(self.vocabulary, p=np.exp(drawn)))
            tempered = log_softmax(raw / filters.get("temperature", 1.0))
            ids.append(token)
            values = {"raw": raw, "tempered": tempered, "processed": drawn}[mode]
            logprobs.append(float(values[token]))
            state = self._step(state, token)
        return Sampled(ids, logprobs)


def log_softmax(logits: Floats) -> Floats:
    highest = logits.max()
    return logits - highest - math.log(np.exp(logits - highest).sum())


Order = Literal["vllm", "transformers", "sglang", "llama.cpp", "mlx"]


def processed(
    raw: Floats,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    order: Order = "vllm",
) -> Floats:
    """Log-probabilities after temperature and filters, over the whole vocabulary, step by step."""
    steps = {
        "vllm": ["temperature", "min_p", "top_k", "top_p"],
        "transformers": ["temperature", "top_k", "top_p", "min_p"],
        "sglang": ["temperature", "top_p", "min_p", "top_k"],
        "llama.cpp": ["top_k", "top_p", "min_p", "temperature"],
        "mlx": ["top_p", "min_p", "top_k", "temperature"],
    }[order]
    widths = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    now = raw
    whole = raw / temperature if order == "sglang" else raw
    for step in steps:
        if widths[step] is None:
            continue
        # Filters that are taken jointly look at the whole distribution, not at what is left.
        seen = np.exp(log_softmax(whole if order in ("sglang", "mlx") else now))
        ranked = np.argsort(-seen, kind="stable")
        off = np.zeros(raw.size, np.bool_)
        if step == "temperature":
            now = now / temperature
        elif step == "top_k" and top_k is not None:
            off[ranked[top_k:]] = True
        elif step == "top_p" and top_p is not None:
            off[ranked[np.cumsum(seen[ranked]) - seen[ranked] >= top_p]] = True
        elif step == "min_p" and min_p is not None:
            off = seen < min_p * seen.max()
        now = np.where(off, -np.inf, now)
    return log_softmax(now)


def penalised(
    logits: Floats,
    prompt: list[int],
    ids: list[int],
    repetition: float,
    presence: float,
    frequency: float,
) -> Floats:
    """Logits after penalties, as vLLM has them: the last two look at the completion alone."""
    seen = np.bincount([*prompt, *ids], minlength=logits.size) > 0
    counts = np.bincount(np.array(ids, np.int64), minlength=logits.size)
    found = np.where(seen, np.where(logits > 0, logits / repetition, logits * repetition), logits)
    return found - presence * (counts > 0) - frequency * counts
