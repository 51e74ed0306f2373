"""What a check can find: one fault, none, or that no one can be named."""

from dataclasses import dataclass
from enum import StrEnum

from wmo_distill.scorers.draws import Drawn
from wmo_distill.scorers.filters import FilterOrder, SamplingParams


class Verdict(StrEnum):
    """The likeliest fault, or none."""

    AGREES = "agrees"
    TEMPERATURE = "temperature"
    """Sampled, or recorded, at another temperature than the rows say."""
    FILTERED = "filtered"
    """Sampled with other filters (top-k, top-p, min-p) than the rows name."""
    PENALTY = "penalty"
    """Sampled with a repetition, presence or frequency penalty that the rows do not name."""
    PROCESSED = "processed"
    """Recorded after temperature and filters, though the rows say before."""
    RAW = "raw"
    """Recorded before temperature and filters, though the rows say after."""
    UNFILTERED = "unfiltered"
    """Recorded after temperature but before filters, though the rows say after both."""
    UNITS = "units"
    """Recorded as something else than natural logarithms."""
    FILLER = "filler"
    """One constant is recorded in place of measured values."""
    SHIFTED = "shifted"
    """Recorded next to the token before or after."""
    SOME_EPISODES = "some_episodes"
    """Some episodes disagree, all others agree."""
    MIXED_VERSIONS = "mixed_versions"
    """Some recorded policy versions agree, others do not."""
    TEMPLATE = "template"
    """First turns agree and later ones do not: the prompts were not those recorded."""
    TOKENIZER = "tokenizer"
    """The recorded ids make no sense to this model."""
    WEIGHTS = "weights"
    """Alike, but not the same model: stale or other weights."""
    UNEXPLAINED = "unexplained"
    """Something is wrong, or too little was compared, and no one fault explains it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict and what speaks for it."""

    verdict: Verdict
    params: SamplingParams | None = None
    """Sampling parameters that explain the records, where some do and the rows name others."""
    orders: tuple[FilterOrder, ...] = ()
    """The orders of filters that the data allow."""
    shift: int = 0
    """Tokens further on in its run at which a token's value was recorded."""
    detail: str = ""
    """The fault in words, where the verdict leaves something open."""
    clues: tuple[str, ...] = ()
    """What else was seen; for `unexplained`, what it may be."""
    episodes: tuple[int, ...] = ()
    """The episodes that disagree, where others agree."""
    versions: tuple[int, ...] = ()
    """Numbers of the policy versions that disagree, where others agree."""
    drawn: Drawn | None = None
    """What the drawn tokens say, where the records agree and candidates are listed."""
