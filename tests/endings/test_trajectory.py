"""Trajectories: every own step once, nothing outside the agent directory, whatever is in them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.sources.harbor.trajectory import (
    Trajectory,
    read_trajectory,
)
from wmo_distill.tokenjson.rows import IdRow, whole_row

COMPACTED = "Performed context summarization and handoff to continue task."


def call(name: str) -> dict[str, Any]:
    return {"tool_call_id": "c", "function_name": name, "arguments": {}}


def step(source: str = "agent", **more: Any) -> dict[str, Any]:
    return {"source": source, "message": "Analysis: x\nPlan: y", **more}


def work(**more: Any) -> dict[str, Any]:
    return step(tool_calls=[call("bash_command")], **more)


def claim(**more: Any) -> dict[str, Any]:
    return step(tool_calls=[call("bash_command"), call("mark_task_complete")], **more)


def write(root: Path, name: str, steps: Any, **more: Any) -> None:
    path = root / "agent" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schema_version": "ATIF-v1.8", "steps": steps, **more}))


def read(root: Path, *steps: Any, **more: Any) -> Trajectory:
    write(root, "trajectory.json", list(steps), **more)
    return read_trajectory(TrialFiles(root), "agent")


def ids_of(*rows: IdRow) -> list[list[int]]:
    return [[] if (ids := whole_row(row)) is None else ids.tolist() for row in rows]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "steps", "source", "message", "tool_calls", "function_name", "observation",
                    "results", "content", "metrics", "prompt_token_ids", "completion_token_ids",
                    "logprobs", "extra", "context_management", "type", "text",
                    "continued_trajectory_ref", "is_copied_context",
                ]
            ),
            inner | st.sampled_from(["agent", "system", "trajectory.json", "mark_task_complete"]),
            max_size=4,
        )
    ),
    max_leaves=20,
)  # fmt: skip


@given(value=JSON, steps=st.lists(JSON, max_size=4), reference=JSON)
def test_no_content_raises(
    value: Any, steps: list[Any], reference: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("trial")
    (root / "agent").mkdir()
    (root / "agent" / "trajectory.json").write_text(json.dumps(value))
    read_trajectory(TrialFiles(root), "agent")
    agent = [{"source": "agent", **s} if isinstance(s, dict) else s for s in steps]
    found = read(root, *agent, continued_trajectory_ref=reference)
    assert all(index < len(found.steps) for index in found.compactions)
    assert len(found.steps) <= len(steps)


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"steps": {}}', '{"steps": null}'])
def test_what_is_no_trajectory(tmp_path: Path, text: str | None) -> None:
    (tmp_path / "agent").mkdir()
    if text is not None:
        (tmp_path / "agent" / "trajectory.json").write_text(text)
    found = read_trajectory(TrialFiles(tmp_path), "agent")
    if text is None:
        assert (found.absent, found.issues) == (Absent.MISSING, (Issue.TRAJECTORY_MISSING,))
    else:
        assert (found.absent, found.issues) == (Absent.UNREADABLE, (Issue.TRAJECTORY_UNREADABLE,))
    assert not found.complete
    assert not found.reference_submitted


def test_only_the_agents_own_steps_count(tmp_path: Path) -> None:
    found = read(
        tmp_path, 1, None, "x", [], step("user"), work(), work(is_copied_context=True), claim()
    )
    assert [s.claims for s in found.steps] == [False, True]
    assert found.complete
    assert found.reference_submitted
    assert found.issues == ()


def test_the_token_lists_of_a_step(tmp_path: Path) -> None:
    metrics = {
        "prompt_token_ids": [1, 2],
        "completion_token_ids": [3],
        "logprobs": [-0.5],
    }
    found = read(tmp_path, work(metrics=metrics), work(metrics={"prompt_token_ids": [7]}), work())
    first, second, third = found.steps
    assert ids_of(first.prompt, first.completion) == [[1, 2], [3]]
    assert first.logprobs.values is not None
    assert list(first.logprobs.values) == [-0.5]
    assert second.has_ids
    assert second.completion.missing
    assert not third.has_ids


class TestContinuation:
    def test_files_are_read_in_order_and_copies_once(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            "trajectory.cont-1.json",
            [step("user", is_copied_context=True), work(is_copied_context=True), work()],
            continued_trajectory_ref="./trajectory.cont-2.json",
        )
        write(tmp_path, "trajectory.cont-2.json", [claim(), claim()])
        found = read(
            tmp_path,
            work(),
            work(),
            step("system", message=COMPACTED),
            continued_trajectory_ref="trajectory.cont-1.json",
        )
        assert [s.claims for s in found.steps] == [False, False, False, True, True]
        assert found.compactions == (2, 3)
        assert found.issues == ()
        assert not found.reference_submitted, "the reference looks at the first file alone"

    @pytest.mark.parametrize(
        "reference",
        ["../../x.json", "/etc/passwd", "..", "a/../../x.json", "..\\x.json", "../agent/t.json"],
    )
    def test_a_reference_that_leads_out(self, tmp_path: Path, reference: str) -> None:
        (tmp_path / "x.json").write_text(json.dumps({"steps": [work()]}))
        found = read(tmp_path / "trial", work(), continued_trajectory_ref=reference)
        assert found.issues == (Issue.CONTINUATION_ESCAPES,)
        assert len(found.steps) == 1
        assert not found.complete

    @pytest.mark.parametrize(
        "reference",
        ["trajectory.cont-1.json", "", 5, ["a"], {}, True, "a\0", "sub/more.json", "more"],
    )
    def test_a_reference_to_nothing(self, tmp_path: Path, reference: Any) -> None:
        found = read(tmp_path, work(), continued_trajectory_ref=reference)
        assert found.issues == (Issue.CONTINUATION_MISSING,)
        assert not found.complete

    @pytest.mark.parametrize("text", ["{", "[]", '{"steps": 1}'])
    def test_a_reference_to_no_trajectory(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "agent").mkdir()
        (tmp_path / "agent" / "more.json").write_text(text)
        found = read(tmp_path, work(), continued_trajectory_ref="more.json")
        assert found.issues == (Issue.CONTINUATION_MISSING,)

    def test_no_link_is_followed(self, tmp_path: Path) -> None:
        (tmp_path / "x.json").write_text(json.dumps({"steps": [work()]}))
        (tmp_path / "t" / "agent").mkdir(parents=True)
        os.symlink(tmp_path / "x.json", tmp_path / "t" / "agent" / "more.json")
        found = read(tmp_path / "t", work(), continued_trajectory_ref="more.json")
        assert found.issues == (Issue.CONTINUATION_MISSING,)
        assert len(found.steps) == 1

    @pytest.mark.parametrize("last", ["trajectory.json", "./trajectory.json", "more.json"])
    def test_a_circle(self, tmp_path: Path, last: str) -> None:
        write(tmp_path, "more.json", [claim(), claim()], continued_trajectory_ref=last)
        found = read(tmp_path, work(), continued_trajectory_ref="more.json")
        assert found.issues == (Issue.CONTINUATION_CYCLIC,)
        assert len(found.steps) == 3
        assert found.complete, "every file of a circle has been read"


class TestCompactions:
    def test_each_is_placed_at_the_step_after_it(self, tmp_path: Path) -> None:
        marked = {"context_management": {"type": "compaction", "boundary": "replace"}}
        found = read(
            tmp_path,
            work(),
            step("system", message=COMPACTED),
            step("user"),
            work(),
            work(),
            step("system", message="anything", extra=marked),
            work(),
            step("system", message=COMPACTED),
        )
        assert found.compactions == (1, 3), "the last has no step after it"

    def test_other_system_steps_are_none(self, tmp_path: Path) -> None:
        found = read(tmp_path, step("system", message="You are"), work(), step("user"), work())
        assert found.compactions == ()


REAL = Path(__file__).parents[2] / "fixtures" / "trajectories"


@pytest.mark.parametrize(
    ("name", "turns", "compactions", "issues"),
    [
        ("linear-history", "wwwwwcc", (3,), ()),
        ("parse-error", "fwcc", (), ()),
        ("openhands", "ww", (), ()),
        ("multimodal", "wf", (), (Issue.IMAGE_IN_MESSAGE,)),
    ],
)
def test_real_trajectories(
    name: str, turns: str, compactions: tuple[int, ...], issues: tuple[Issue, ...]
) -> None:
    found = read_trajectory(TrialFiles(REAL / name), "agent")
    letters = ["c" if s.claims else "f" if s.parse_error else "w" for s in found.steps]
    assert ("".join(letters), found.compactions, found.issues) == (turns, compactions, issues)
