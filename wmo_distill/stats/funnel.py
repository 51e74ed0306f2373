"""From trials found to tokens that can train: what is left at each stage, and the sums."""

import polars as pl
from pydantic import BaseModel, ConfigDict

from wmo_distill.shards.manifest import Manifest


class Found(BaseModel):
    """From the manifest: trials found, and what became of them and of their calls.

    trials == written + skipped; calls_found == calls_kept + dropped. Of the whole dataset,
    whatever `--where` chose.
    """

    model_config = ConfigDict(frozen=True)

    trials: int
    written: int
    skipped: dict[str, int]
    calls_found: int
    calls_kept: int
    dropped: dict[str, int]


class Funnel(BaseModel):
    """How many records, and sampled tokens, are left for training at each stage."""

    model_config = ConfigDict(frozen=True)

    records: int
    with_spans: int
    with_tokens: int
    with_logprobs: int
    measured_with_logprobs: int
    sampled_tokens: int
    sampled_tokens_with_logprobs: int


class TokenTotals(BaseModel):
    """Sums over the records; all but `subagent` count the main chat."""

    model_config = ConfigDict(frozen=True)

    calls: int
    fragments: int
    """Runs of calls in which each prompt extends what came before."""
    input: int
    """`total` less `output`: what the model was given, once a fragment."""
    output: int
    """Sampled tokens."""
    total: int
    """Tokens of all fragments."""
    prompt: int
    """Tokens of all prompts, what they repeat included."""
    subagent: int
    """Tokens of the other chats, those of summarizers and of subagents."""
    expansion: float | None
    """Tokens of all fragments / tokens of each record's longest fragment."""


def found_in(manifest: Manifest) -> Found:
    totals = manifest.totals
    return Found(
        trials=totals.found,
        written=totals.written,
        skipped=totals.skipped,
        calls_found=totals.calls_found,
        calls_kept=totals.calls,
        dropped=totals.calls_dropped,
    )


def funnel_of(rows: pl.DataFrame) -> Funnel:
    scored = rows["scored"] > 0
    return Funnel(
        records=rows.height,
        with_spans=int(rows["with_spans"].sum()),
        with_tokens=int((rows["output_tokens"].fill_null(0) > 0).sum()),
        with_logprobs=int(scored.sum()),
        measured_with_logprobs=int((scored & rows["measured"]).sum()),
        sampled_tokens=int(rows["sampled"].sum()),
        sampled_tokens_with_logprobs=int(rows["scored"].sum()),
    )


def totals_of(rows: pl.DataFrame) -> TokenTotals:
    names = {
        "calls": "n_calls",
        "fragments": "fragments",
        "input": "input_tokens",
        "output": "output_tokens",
        "total": "total_tokens",
        "prompt": "prompt_tokens",
        "subagent": "subagent_tokens",
    }
    totals = {name: int(rows[column].cast(pl.Int64).sum()) for name, column in names.items()}
    known = rows.select("total_tokens", "expansion").filter(pl.col("expansion") > 0)
    longest = float((known["total_tokens"] / known["expansion"]).sum())
    return TokenTotals(**totals, expansion=totals["total"] / longest if longest else None)
