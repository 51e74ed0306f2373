"""The verifier's test report, `ctrf.json`: how many tests passed, failed, gave no verdict.

A report counts its tests twice, in a summary and item by item. The items are the primitive fact
and win, but only when they are complete: reporters exist that itemize failures alone.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.records import GradedTests
from wmo_distill.sources.evidence import TestsReport

_COLUMN_LIMIT = 2**31


# Counts are read laxly ("2", 1.0 and true are counts); a negative or fractional one, or null
# for one of the last three, makes the whole report unreadable.
class _Summary(BaseModel):
    passed: int | None = Field(default=None, ge=0)
    failed: int | None = Field(default=None, ge=0)
    skipped: int = Field(default=0, ge=0)
    pending: int = Field(default=0, ge=0)
    other: int = Field(default=0, ge=0)
    tests: Any = None


class _Item(BaseModel):
    """One test; only the exact words "passed" and "failed" are verdicts."""

    status: Any = ""
    name: Any = None
    suite: Any = None
    file_path: Any = None
    filePath: Any = None  # noqa: N815 - CTRF's own spelling
    retries: Any = None
    flaky: Any = None


class _Results(BaseModel):
    summary: _Summary | None = None
    tests: list[_Item] = Field(default_factory=list)


class _Report(BaseModel):
    results: _Results


def read_tests(files: TrialFiles, verifier_dir: str) -> TestsReport:
    """The verdicts of `{verifier_dir}/ctrf.json`; a trial without that file has no issue."""
    value = files.read_json(f"{verifier_dir}/ctrf.json")
    if value is Absent.MISSING:
        return TestsReport()
    if isinstance(value, Absent):
        return TestsReport(issues=(Issue.TESTS_UNREADABLE,))
    try:
        results = _Report.model_validate(value).results
    except (ValidationError, RecursionError):
        return TestsReport(issues=(Issue.TESTS_UNREADABLE,))
    return _weigh(results.summary, results.tests)


def _weigh(summary: _Summary | None, items: Sequence[_Item]) -> TestsReport:
    """Items against summary; neither may speak for tests that it does not cover."""
    summed = _count_summary(summary)
    stated = _stated_tests(summary)
    itemized = _count_items(items)
    attempts = _count_items(_last_attempts(items, marked=summed is None))
    if summed is None or attempts == summed:
        itemized = attempts
    complete = stated is None or len(items) >= stated
    issues = []
    if items and (not complete or summed not in (None, itemized)):
        issues.append(Issue.TESTS_DISAGREE)
    tests = itemized if complete and itemized.resolved else summed
    if tests is None or not tests.resolved:
        return TestsReport(issues=(*issues, Issue.TESTS_WITHOUT_VERDICT))
    if max(tests.resolved, tests.unresolved) >= _COLUMN_LIMIT:
        return TestsReport(issues=(*issues, Issue.VALUE_DAMAGED))
    return TestsReport(tests, tuple(issues))


def _count_summary(summary: _Summary | None) -> GradedTests | None:
    """The summary's counts; None unless it holds both kinds of verdict."""
    if summary is None or summary.passed is None or summary.failed is None:
        return None
    return GradedTests(
        passed=summary.passed,
        resolved=summary.passed + summary.failed,
        unresolved=summary.skipped + summary.pending + summary.other,
    )


def _count_items(items: Sequence[_Item]) -> GradedTests:
    passed = sum(item.status == "passed" for item in items)
    resolved = passed + sum(item.status == "failed" for item in items)
    return GradedTests(passed=passed, resolved=resolved, unresolved=len(items) - resolved)


def _stated_tests(summary: _Summary | None) -> int | None:
    """How many tests there were by the summary: the sum of its counts, else its own total."""
    if summary is None:
        return None
    counts = _count_summary(summary)
    if counts is not None:
        return counts.resolved + counts.unresolved
    return summary.tests if type(summary.tests) is int and summary.tests > 0 else None


def _last_attempts(items: Sequence[_Item], *, marked: bool) -> list[_Item]:
    """The last item of each name, as if items of one name were attempts at one test.

    One name can also stand for several tests (parameters, repeated titles), so this counts only
    where the summary says the same, or, `marked`, for names with a recorded retry.
    """
    last = {_identity(item): item for item in items}
    retried = {_identity(item) for item in items if not marked or _records_retry(item)}
    return [i for i in items if _identity(i) not in retried or last[_identity(i)] is i]


def _identity(item: _Item) -> tuple[object, ...]:
    suite = item.suite if isinstance(item.suite, list) else [item.suite]
    parts = (item.name, item.file_path, item.filePath, *suite)
    return tuple(part if isinstance(part, str) else None for part in parts)


def _records_retry(item: _Item) -> bool:
    return item.flaky is True or (type(item.retries) is int and item.retries > 0)
