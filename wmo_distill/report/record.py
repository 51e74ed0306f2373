"""One record for people: identity, grade, ending, calls and issues."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB
from wmo_distill.issues import Issue
from wmo_distill.records import TrialRecord
from wmo_distill.report.tables import Row, page, section, table, words
from wmo_distill.tokens import TokenSpan


def render_record(record: TrialRecord) -> str:
    """The record as text; ids are counted, not listed."""
    head = (
        "segment", "call", "prompt", "of it new", "sampled", "mean log-probability", "median",
        "end",
    )  # fmt: skip
    return page(
        table(facts(record)),
        section("Calls", _calls(record), head=head),
        section("Issues", [(i.value, n, i.meaning) for i, n in Counter(record.issues).items()]),
        section("Secrets", _secrets(record), head=("segment", "call", "tokens", "", "rule")),
    )


def facts(record: TrialRecord) -> list[Row]:
    """Identity, how it was sampled, grade, ending and counts, by name."""
    r, with_ = record, record.sampled_with
    return [
        ("trial", words(r.trial_name, _said("step", r.step_name))),
        ("episode id", r.episode_id),
        ("directory", r.artifact_dir),
        ("task", words(r.task_id, _said("of", r.source))),
        ("group", words(r.group_id, _said("attempt", r.attempt))),
        ("regrade of", r.regrade_of),
        ("agent", words(r.agent_name, r.agent_version)),
        ("model", words(r.model_name, _said("by", r.model_provider))),
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
        ("reward", words(
            _number(r.reward),
            {True: "passed", False: "not passed", None: None}[r.passed],
            {True: "valid", False: "not valid", None: None}[r.reward_valid],
            "never graded" if r.infra_failed else None,
        )),
        ("rewards", ", ".join(f"{name} {value:g}" for name, value in r.rewards.items())),
        ("tests", "" if r.tests is None else (
            f"{r.tests.passed} of {r.tests.resolved} passed, {r.tests.unresolved} unresolved"
        )),
        ("note", r.note),
        ("ending", words(
            str(r.stop_reason),
            f"completion {r.completion}",
            f"reference says {r.reference_stop_reason or 'nothing'}",
            r.exception_type,
        )),
        ("turns", words(_number(r.n_episodes), _said("of", r.max_turns))),
        ("tokens", (
            f"{r.counts.total_tokens:,} = {r.counts.input_tokens:,} fed in + "
            f"{r.counts.output_tokens:,} sampled, {r.counts.fragments} fragments, "
            f"from {r.span_source}"
        )),
    ]  # fmt: skip


def _calls(record: TrialRecord) -> Iterator[Row]:
    for span in record.spans:
        kind = record.segments[span.segment].kind if record.segments else ""
        yield (
            f"{span.segment} {kind}",
            span.call_index,
            span.prompt_len,
            span.prompt_suffix.size,
            "not recorded" if span.sampled_token_ids is None else span.sampled.size,
            *_mean_and_median(span),
            span.finish_reason,
        )


def _secrets(record: TrialRecord) -> Iterator[Row]:
    """Where they are: tokens count from the start of the call's prompt."""
    for one in record.secrets:
        masked = "masked" if one.masked else "trained"
        yield one.segment, one.call_index, f"{one.start} to {one.stop - 1}", masked, one.rule


def _mean_and_median(span: TokenSpan) -> tuple[str, str]:
    """Over the usable log-probabilities: finite and above `IMPLAUSIBLE_LOGPROB`."""
    if span.sampled_logprobs is None:
        return ("none" if span.sampled.size else ""), ""
    known = span.sampled_logprobs[np.isfinite(span.sampled_logprobs)]
    known = known[known > IMPLAUSIBLE_LOGPROB]
    return (f"{known.mean():.4f}", f"{np.median(known):.4f}") if known.size else ("", "")


def _temperature(record: TrialRecord) -> str | float | None:
    """The temperature, or why there is none; one that varies is said by its issue."""
    with_ = record.sampled_with
    if with_.temperature is not None or Issue.SAMPLING_VARIES in record.issues:
        return with_.temperature
    return "not sent (the server's own default)" if with_.temperature_not_sent else "unknown"


def _said(word: str, value: str | int | None) -> str | None:
    return None if value is None else f"{word} {value}"


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"
