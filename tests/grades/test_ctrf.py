"""A test report never grades better than what it proves, and damage is an issue."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.files import TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.records import GradedTests
from wmo_distill.sources.harbor.ctrf import TestsReport, read_tests

FIXTURES = Path(__file__).parents[2] / "fixtures" / "ctrf"
STATUSES = ["passed", "failed", "skipped", "pending", "other", "PASSED", "", None, 1, True]


def written(folder: Path, data: bytes) -> TrialFiles:
    (folder / "verifier").mkdir(exist_ok=True)
    (folder / "verifier" / "ctrf.json").write_bytes(data)
    return TrialFiles(folder)


def report(
    summary: dict[str, Any] | None = None, statuses: list[Any] | None = None, **names: str
) -> dict[str, Any]:
    results: dict[str, Any] = {"tool": {"name": "pytest"}}
    if summary is not None:
        results["summary"] = summary
    if statuses is not None:
        results["tests"] = [{"name": f"t{i}", "status": s} for i, s in enumerate(statuses)]
    return {"results": results}


def read(folder: Path, value: Any) -> TestsReport:
    return read_tests(written(folder, json.dumps(value).encode()), "verifier")


def counts(tests: GradedTests | None) -> tuple[int, int, int] | None:
    return None if tests is None else (tests.passed, tests.resolved, tests.unresolved)


@given(
    statuses=st.lists(st.sampled_from(STATUSES), max_size=8),
    summary=st.none()
    | st.dictionaries(
        st.sampled_from(["tests", "passed", "failed", "skipped", "pending", "other"]),
        st.integers(-1, 9) | st.sampled_from([None, "2", 1.0, 1.5, True, 2**40, 10**400]),
    ),
)
def test_no_report_grades_better_than_its_items_or_its_summary(
    statuses: list[Any], summary: dict[str, Any] | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    files = written(
        tmp_path_factory.mktemp("trial"), json.dumps(report(summary, statuses)).encode()
    )
    answer = read_tests(files, "verifier")
    if answer.tests is None:
        assert answer.issues
        return
    assert 0 <= answer.tests.passed <= answer.tests.resolved < 2**31
    assert answer.tests.resolved
    passes = statuses.count("passed")
    summed = int((summary or {}).get("passed") or 0)
    assert answer.tests.passed in (passes, summed)


@given(statuses=st.lists(st.sampled_from(["passed", "failed", "skipped"]), min_size=1, max_size=8))
def test_a_report_that_agrees_with_itself_has_no_issue(
    statuses: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    summary = {word: statuses.count(word) for word in ("passed", "failed", "skipped")}
    files = written(
        tmp_path_factory.mktemp("trial"), json.dumps(report(summary, statuses)).encode()
    )
    answer = read_tests(files, "verifier")
    if set(statuses) == {"skipped"}:
        assert answer == TestsReport(None, (Issue.TESTS_WITHOUT_VERDICT,))
    else:
        verdicts = summary["passed"] + summary["failed"]
        assert counts(answer.tests) == (summary["passed"], verdicts, summary["skipped"])
        assert answer.issues == ()


UNREADABLE = TestsReport(None, (Issue.TESTS_UNREADABLE,))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"results": null}',
        b'{"results": {"summary": {"passed": 1, "failed": 0}, "x": "\xe9"}}',
        b'{"results": {"summary": {"passed": 1.5, "failed": 1}}}',
        b'{"results": {"summary": {"passed": 1, "failed": 1, "skipped": null}}}',
        b'{"results": {"summary": {"passed": 1, "failed": -1}, '
        b'"tests": [{"name": "t0", "status": "passed"}]}}',
        b'{"results": {"summary": {"passed": NaN, "failed": 1}}}',
        b'{"results": {"tests": ["passed"]}}',
        b'{"results": {"summary": {"passed": 1, "failed": 0}, "x": '
        + b"[" * 50_000
        + b"]" * 50_000
        + b"}}",
        b'{"results": {"summary": {"passed": 1, "failed": ' + b"9" * 5000 + b"}}}",
        b'{"results": {"summary": {"passed": 1, "failed": 0}',
    ],
)
def test_an_unreadable_report_is_refused_as_a_whole(data: bytes, tmp_path: Path) -> None:
    files = written(tmp_path, data)
    assert read_tests(files, "verifier") == UNREADABLE


def test_no_report_is_no_issue_and_a_directory_is_one(tmp_path: Path) -> None:
    assert read_tests(TrialFiles(tmp_path), "verifier") == TestsReport()
    (tmp_path / "verifier" / "ctrf.json").mkdir(parents=True)
    assert read_tests(TrialFiles(tmp_path), "verifier") == UNREADABLE


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # lax counts
        (report({"passed": "2", "failed": 1.0, "skipped": True}), (2, 3, 1)),
        # a status is one of two exact words, or no verdict
        (report(None, ["PASSED", "passed"]), (1, 1, 1)),
        (
            report(None, ["passed", "failed", "skipped", "pending", "other"]),
            (1, 2, 3),
        ),
        ({"results": {"tests": [{"name": "a"}, {"name": "b", "status": "failed"}]}}, (0, 1, 1)),
        (report(None, [None, 7, "passed"]), (1, 1, 2)),
        # a summary alone
        (report({"passed": 1, "failed": 3}), (1, 4, 0)),
        (report({"passed": 1, "failed": 3}, []), (1, 4, 0)),
        ({"results": {"summary": None, "tests": [{"status": "passed"}]}}, (1, 1, 0)),
    ],
)
def test_counts_without_a_disagreement(
    value: Any, expected: tuple[int, int, int], tmp_path: Path
) -> None:
    answer = read(tmp_path, value)
    assert counts(answer.tests) == expected
    assert answer.issues == ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # complete items win
        (report({"passed": 1, "failed": 2}, ["passed", "failed", "failed", "failed"]), (1, 4, 0)),
        (report({"passed": 1, "failed": 0, "skipped": 0}, ["passed", "skipped"]), (1, 1, 1)),
        (report({"passed": 2, "failed": 0}, ["passed", "FAILED"]), (1, 1, 1)),
        # incomplete ones do not
        (report({"passed": 8, "failed": 2}, ["failed", "failed"]), (8, 10, 0)),
        (report({"tests": 10, "passed": 8, "failed": 2}, ["passed"]), (8, 10, 0)),
        # items without any verdict leave it to the summary
        (report({"passed": 1, "failed": 1}, ["PASSED", "FAILED"]), (1, 2, 0)),
    ],
)
def test_a_disagreement_is_an_issue(
    value: Any, expected: tuple[int, int, int], tmp_path: Path
) -> None:
    assert (counts((got := read(tmp_path, value)).tests), got.issues) == (
        expected,
        (Issue.TESTS_DISAGREE,),
    )


@pytest.mark.parametrize(
    ("value", "issues"),
    [
        (report({"passed": 3}), [Issue.TESTS_WITHOUT_VERDICT]),
        (report({"passed": 0, "failed": 0, "skipped": 2}), [Issue.TESTS_WITHOUT_VERDICT]),
        (report(None, ["skipped"]), [Issue.TESTS_WITHOUT_VERDICT]),
        (report(), [Issue.TESTS_WITHOUT_VERDICT]),
        (
            report({"tests": 10, "failed": 2}, ["failed", "failed"]),
            [Issue.TESTS_DISAGREE, Issue.TESTS_WITHOUT_VERDICT],
        ),
        (report({"passed": 2**31, "failed": 0}), [Issue.VALUE_DAMAGED]),
    ],
)
def test_no_verdict_is_null_and_never_zero(value: Any, issues: list[Issue], tmp_path: Path) -> None:
    assert read(tmp_path, value) == TestsReport(None, tuple(issues))


def attempts(summary: dict[str, int] | None, *items: tuple[str, str], **extra: Any) -> Any:
    tests = [{"name": name, "status": status, **extra} for name, status in items]
    results: dict[str, Any] = {"tests": tests}
    if summary is not None:
        results["summary"] = summary
    return {"results": results}


@pytest.mark.parametrize(
    ("value", "expected", "issues"),
    [
        # the summary counts tests, the items attempts
        (attempts({"passed": 1, "failed": 0}, ("a", "failed"), ("a", "passed")), (1, 1, 0), 0),
        # the summary counts both
        (attempts({"passed": 1, "failed": 1}, ("a", "failed"), ("a", "passed")), (1, 2, 0), 0),
        # nothing proves a retry: two tests of one name
        (attempts(None, ("a", "failed"), ("a", "passed")), (1, 2, 0), 0),
        (attempts({"passed": 0, "failed": 9}, *[("a", "failed")] * 10), (0, 10, 0), 1),
        # a recorded retry
        (attempts(None, ("a", "failed"), ("a", "passed"), retries=1), (1, 1, 0), 0),
        (attempts(None, ("a", "failed"), ("b", "passed"), retries=1), (1, 2, 0), 0),
    ],
)
def test_retries_under_one_name_are_one_test_where_that_is_proved(
    value: Any, expected: tuple[int, int, int], issues: int, tmp_path: Path
) -> None:
    got = read(tmp_path, value)
    assert counts(got.tests) == expected
    assert got.issues == (Issue.TESTS_DISAGREE,) * issues


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    files = written(tmp_path, b"\xef\xbb\xbf" + json.dumps(report(None, ["passed"])).encode())
    assert counts(read_tests(files, "verifier").tests) == (1, 1, 0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("comprehensive", (2, 3, 0)),
        ("with-retries", (2, 2, 0)),
        ("pytest", (2, 3, 0)),
        ("few-itemized", (121, 121, 2)),
        ("more-itemized", (8, 8, 3)),
    ],
)
def test_real_reports(name: str, expected: tuple[int, ...], tmp_path: Path) -> None:
    (tmp_path / "verifier").mkdir()
    shutil.copyfile(FIXTURES / f"{name}.json", tmp_path / "verifier" / "ctrf.json")
    files = TrialFiles(tmp_path)
    answer = read_tests(files, "verifier")
    assert counts(answer.tests) == expected
    assert bool(answer.issues) == ("itemized" in name)
