"""The options of scoring, and of checking log-probabilities."""

from enum import StrEnum
from pathlib import Path

from wmo_distill.operation import Options, option


class Noise(StrEnum):
    """Which numerical noise is expected between the sampler and the scorer."""

    FP32 = "fp32"
    """Both in float32. Accumulation order alone: below 0.001 nats; tolerance 0.005."""
    BF16 = "bf16"
    """Both in bfloat16, a dense model. NeMo RL (docs/adding-new-models.md, "Expected Error
    Threshold") takes a mean of exp|difference| up to 1.05 at equal precision: tolerance 0.05."""
    FP8 = "fp8"
    """One of the two in fp8. No published limit; our allowance is twice that of bf16: 0.1."""
    MOE = "moe"
    """A mixture of experts whose routing is not replayed. Ma et al. 2025 (arXiv:2510.11370): about
    a tenth of the routers choose other experts, and single tokens differ by orders of magnitude:
    tolerance 0.1, and 2 % of the ratios may be outside [0.5, 2]."""


class Requests(Options):
    """How the scorer is asked: a sequence without an answer is tried again, later and later."""

    concurrency: int = option(8, "Number of requests that run at once.", "N", ge=1)
    attempts: int = option(6, "Number of tries while a server is unavailable.", "N", ge=1)
    wait: float = 1.0
    """Seconds to begin with."""


class ScoreOptions(Requests):
    top_k: int = option(0, "Also keep the K likeliest tokens of each position.", "K", ge=0)


class CheckOptions(Requests):
    """`wait` is in seconds, `tolerance` in nats."""

    sample: int = option(64, "Number of sequences to re-score.", "N", ge=1)
    seed: int = option(0, "Seed of the choice of sequences to re-score.", "N")
    top_k: int = option(
        20,
        "Number of likeliest tokens to ask for at each position; more are asked for where they "
        "tell too little. 0: temperature and filters are not checked.",
        "K",
        ge=0,
    )
    noise: Noise = option(
        Noise.BF16,
        "Numerical noise to expect between sampler and server; sets the tolerance: 0.005, 0.05, "
        "0.1, 0.1 nats. moe: mixture of experts, routing not replayed.",
    )
    tolerance: float | None = option(
        None, "Mean difference in nats that is no fault, whatever --noise.", "X", ge=0.0
    )
    store: Path | None = option(
        None, "Keep the re-scored log-probabilities here, as `score` keeps a teacher's.", "DIR"
    )
    name: str | None = option(
        None, "Name that --store keeps them under. Default: the model's name.", "NAME"
    )
    attempts: int = option(4, "Number of tries while a server is unavailable.", "N", ge=1)
