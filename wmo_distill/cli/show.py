"""`wmo-distill show`: one record, readable."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmo_distill.cli.output import columns, printable, put

if TYPE_CHECKING:
    from wmo_distill.records import TrialRecord
    from wmo_distill.tokens import TokenSpan


def show(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A dataset that `build` wrote.")],
    trial: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A trial's name or id, an episode's id, or a directory."),
    ] = None,
    row: Annotated[int | None, typer.Option(min=0, metavar="N", help="A row, from 0.")] = None,
) -> None:
    """Show a record: identity, grade, ending, calls and issues. Without an option, row 0."""
    from wmo_distill.errors import UsageError
    from wmo_distill.shards.scan import iter_records

    if trial is not None and row is not None:
        raise UsageError("show: expected --trial or --row, found both; give one of them")
    records = iter_records(out, superseded=True)
    if trial is None:
        chosen = list(islice(records, row or 0, (row or 0) + 1))
        wanted, option = f"row {row or 0}", "--row"
    else:
        chosen = [record for record in records if trial in _names(record)]
        wanted, option = f"a trial {trial!r}", "--trial"
    if not chosen:
        raise UsageError(
            f"{out}: expected {wanted}, found no such row; check {option}: "
            f"`wmo-distill stats {out}` counts the rows, ledger.parquet lists the trials"
        )
    put("\n".join(render_record(record) for record in chosen))


def render_record(record: "TrialRecord") -> str:
    """The record as text; ids are counted, not listed."""
    r, with_ = record, record.sampled_with
    facts = [
        ("trial", _words(r.trial_name, _said("step", r.step_name))),
        ("episode id", r.episode_id),
        ("directory", r.artifact_dir),
        ("task", _words(r.task_id, _said("of", r.source))),
        ("group", _words(r.group_id, _said("attempt", r.attempt))),
        ("regrade of", r.regrade_of),
        ("agent", _words(r.agent_name, r.agent_version)),
        ("model", _words(r.model_name, _said("by", r.model_provider))),
        ("sampling", ", ".join(
            f"{name} {value}"
            for name, value in (
                ("temperature", _temperature(r)), ("top_p", with_.top_p), ("top_k", with_.top_k),
                ("log-probabilities", with_.logprob_mode), ("policy", with_.policy_version),
                ("step", with_.train_step), ("tokenizer", with_.tokenizer),
            )
            if value is not None
        )),
        ("declared", ", ".join(with_.declared)),
        ("reward", _words(
            _number(r.reward),
            {True: "passed", False: "not passed", None: None}[r.passed],
            {True: "valid", False: "not valid", None: None}[r.reward_valid],
            "infrastructure failed" if r.infra_failed else None,
        )),
        ("rewards", ", ".join(f"{name} {value:g}" for name, value in r.rewards.items())),
        ("tests", "" if r.tests is None else (
            f"{r.tests.passed} of {r.tests.resolved} passed, {r.tests.unresolved} unresolved"
        )),
        ("note", r.note),
        ("ending", _words(
            str(r.stop_reason),
            f"completion {r.completion}",
            f"reference says {r.reference_stop_reason or 'nothing'}",
            r.exception_type,
        )),
        ("turns", _words(_number(r.n_episodes), _said("of", r.max_turns))),
        ("tokens", (
            f"{r.counts.total_tokens:,} = {r.counts.input_tokens:,} fed in + "
            f"{r.counts.output_tokens:,} sampled, {r.counts.fragments} fragments, "
            f"from {r.span_source}"
        )),
    ]  # fmt: skip
    blocks = [columns([(name, printable(str(value))) for name, value in facts if value])]
    if r.spans:
        heads = (
            "segment", "call", "prompt", "of it new", "sampled",
            "mean log-probability", "median", "end",
        )  # fmt: skip
        blocks.append("Calls\n" + columns([heads, *_calls(r)]))
    if r.issues:
        blocks.append("Issues\n" + columns([(i.value, i.meaning) for i in r.issues]))
    return "\n\n".join(blocks) + "\n"


def _calls(record: "TrialRecord") -> Iterator[tuple[str, ...]]:
    for span in record.spans:
        kind = record.segments[span.segment].kind if record.segments else ""
        yield (
            f"{span.segment} {kind}",
            f"{span.call_index}",
            f"{span.prompt_len:,}",
            f"{span.prompt_suffix.size:,}",
            "not recorded" if span.sampled_token_ids is None else f"{span.sampled.size:,}",
            *_mean_and_median(span),
            printable(span.finish_reason or ""),
        )


def _mean_and_median(span: "TokenSpan") -> tuple[str, str]:
    """Over the usable log-probabilities: finite and above `IMPLAUSIBLE_LOGPROB`."""
    import numpy as np

    from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB

    if span.sampled_logprobs is None:
        return ("none" if span.sampled.size else ""), ""
    known = span.sampled_logprobs[np.isfinite(span.sampled_logprobs)]
    known = known[known > IMPLAUSIBLE_LOGPROB]
    return (f"{known.mean():.4f}", f"{np.median(known):.4f}") if known.size else ("", "")


def _temperature(record: "TrialRecord") -> str | float | None:
    """The temperature, or why there is none; one that varies is said by its issue."""
    from wmo_distill.issues import Issue

    with_ = record.sampled_with
    if with_.temperature is not None or Issue.SAMPLING_VARIES in record.issues:
        return with_.temperature
    return "not sent (the server's own default)" if with_.temperature_not_sent else "unknown"


def _names(record: "TrialRecord") -> tuple[str | None, ...]:
    return (record.trial_name, record.trial_id, record.episode_id, record.artifact_dir)


def _words(*words: str | None) -> str:
    return ", ".join(word for word in words if word)


def _said(word: str, value: str | int | None) -> str | None:
    return None if value is None else f"{word} {value}"


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"
