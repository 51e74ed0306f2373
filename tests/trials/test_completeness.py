"""A lost or surplus call is said and counted; nothing is said of the real trials that lost none."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from wmo_distill import BuildOptions
from wmo_distill.issues import Issue
from wmo_distill.records import Completeness, SegmentInfo, SegmentKind, SpanSource, TrialRecord
from wmo_distill.sources.finding import found_at
from wmo_distill.trial import read_found

FIXTURES = Path(__file__).parents[2] / "fixtures"


LATE = FIXTURES / "faults" / "more-calls-than-turns"


REAL = sorted(
    p.parent for p in (FIXTURES / "trials").glob("**/config.json") if p.parent.name.count("__")
)


CODES = {
    Issue.CALL_LOST,
    Issue.CALLS_BEYOND_TURNS,
    Issue.CALL_BEFORE_START,
    Issue.CALL_AFTER_END,
}


def read(root: Path, sinks: Path | None = None) -> TrialRecord:
    trial = read_found(found_at(root, root.parent), BuildOptions(sinks=sinks))
    kept = sum(len(record.spans) for record in trial.records)
    assert trial.calls_found == kept + sum(trial.calls_dropped.values())
    return trial.records[0]


def reported(record: TrialRecord) -> dict[Issue, int]:
    return dict(Counter(issue for issue in record.issues if issue in CODES))


@pytest.fixture
def late(tmp_path: Path) -> Path:
    return Path(shutil.copytree(LATE, tmp_path / "late"))


def edit(file: Path, **values: Any) -> None:
    """Change keys of a JSON file; a key such as `agent_result.metadata` is a path."""
    document = json.loads(file.read_text())
    for path, value in values.items():
        *above, last = path.split(".")
        holder = document
        for key in above:
            holder = holder[key]
        holder[last] = value
    file.write_text(json.dumps(document))


def rewrite(sink: Path, change: Any) -> None:
    lines = [json.loads(line) for line in sink.read_text().splitlines()]
    sink.write_text("".join(json.dumps(line) + "\n" for line in change(lines)))


class TestSink:
    def test_the_calls_after_the_end(self, late: Path) -> None:
        record = read(late / "jobs/j/t__late", late / "sinks")
        assert record.completeness is Completeness.INCOMPLETE
        assert reported(record) == {Issue.CALLS_BEYOND_TURNS: 2, Issue.CALL_AFTER_END: 2}
        assert len(record.spans) == 4

    @pytest.mark.parametrize(
        "shown",
        [
            lambda s: {"at": s},
            lambda s: {"created_at": s * 1000},
            lambda s: {"timestamp": s * 10**9},
            lambda s: {"extra": {"time": s}},
            lambda s: {"time": "soon", "ts": float(s)},
        ],
    )
    def test_a_time_in_other_words(self, late: Path, shown: Any) -> None:
        ended = 1777631400  # 2026-05-01T10:30:00Z
        rewrite(
            late / "sinks/t__late.jsonl",
            lambda lines: [
                {k: v for k, v in line.items() if k != "time"} | shown(ended - 150 + 60 * k)
                for k, line in enumerate(lines)
            ],
        )
        record = read(late / "jobs/j/t__late", late / "sinks")
        assert reported(record) == {Issue.CALLS_BEYOND_TURNS: 2, Issue.CALL_AFTER_END: 1}

    @pytest.mark.parametrize(
        "time", ["2026-05-01T10:31:30", "2026-05-02", None, True, "x", [], 10**400, 5]
    )
    def test_a_time_that_says_nothing(self, late: Path, time: Any) -> None:
        edit(late / "jobs/j/t__late/result.json", **{"agent_result.metadata.n_episodes": 4})
        rewrite(
            late / "sinks/t__late.jsonl", lambda lines: [line | {"time": time} for line in lines]
        )
        record = read(late / "jobs/j/t__late", late / "sinks")
        assert (record.completeness, reported(record)) == (Completeness.SILENT, {})

    def test_a_call_of_an_earlier_run(self, late: Path) -> None:
        edit(
            late / "jobs/j/t__late/result.json",
            **{"agent_result.metadata.n_episodes": 4},
            agent_execution={
                "started_at": "2026-05-01T10:10:00Z",
                "finished_at": "2026-05-01T10:33:00Z",
            },
        )
        record = read(late / "jobs/j/t__late", late / "sinks")
        assert reported(record) == {Issue.CALL_BEFORE_START: 1}
        assert record.completeness is Completeness.INCOMPLETE

    @pytest.mark.parametrize(
        ("metadata", "line", "left"),
        [
            ({"summarization_count": 1}, {}, 0),
            ({}, {"finish_reason": "length"}, 0),
            ({}, {"finish_reason": "MAX_TOKENS"}, 0),
            ({}, {"finish_reason": "max_output_tokens"}, 0),
            ({"n_episodes": 3}, {}, 1),
            ({"n_episodes": 5}, {}, 0),
            ({"n_episodes": None}, {}, 0),
        ],
    )
    def test_calls_that_are_no_turns(
        self, late: Path, metadata: dict[str, Any], line: dict[str, Any], left: int
    ) -> None:
        """Summaries, an answer that was asked for again; a harness that counts no turns."""
        result = late / "jobs/j/t__late/result.json"
        edit(
            result,
            agent_execution=None,
            **{f"agent_result.metadata.{k}": v for k, v in metadata.items()},
        )
        rewrite(late / "sinks/t__late.jsonl", lambda lines: [one | line for one in lines])
        assert reported(read(late / "jobs/j/t__late", late / "sinks")) == (
            {Issue.CALLS_BEYOND_TURNS: left} if left else {}
        )

    def test_the_calls_of_a_summary_that_no_counter_tells(self, late: Path) -> None:
        trial = late / "jobs/j/t__late"
        edit(trial / "result.json", agent_execution=None)
        trajectory = trial / "agent/trajectory.json"
        document = json.loads(trajectory.read_text())
        note = {"source": "system", "message": "Performed context summarization and handoff."}
        last = max(k for k, s in enumerate(document["steps"]) if s["source"] == "agent")
        edit(trajectory, steps=[*document["steps"][:last], note, *document["steps"][last:]])
        assert reported(read(trial, late / "sinks")) == {}

    def test_a_step_that_the_harness_made_is_no_turn(self, tmp_path: Path) -> None:
        trial = Path(shutil.copytree(LATE / "jobs/j/t__late", tmp_path / "t__late"))
        document = json.loads((trial / "agent/trajectory.json").read_text())
        made = {"source": "agent", "message": "Analysis: dispatched", "llm_call_count": 0}
        details = [
            {
                "prompt_token_ids": [[1], [1, 2, 3]],
                "completion_token_ids": [[2], [4]],
                "logprobs": [[-0.5], [-0.25]],
            }
        ]
        edit(trial / "result.json", **{"agent_result.rollout_details": details})
        before = read(trial)
        edit(trial / "agent/trajectory.json", steps=[*document["steps"], made])
        after = read(trial)
        assert reported(after) == {}
        assert (after.stop_reason, after.issues) == (before.stop_reason, before.issues)

    def test_a_prompt_that_was_sent_twice(self, late: Path) -> None:
        edit(late / "jobs/j/t__late/result.json", agent_execution=None)
        rewrite(
            late / "sinks/t__late.jsonl",
            lambda lines: [
                lines[0],
                lines[0] | {"call_index": 1, "sampled_token_ids": [70]},
                lines[1] | {"call_index": 2},
            ],
        )
        assert reported(read(late / "jobs/j/t__late", late / "sinks")) == {}

    def test_a_turn_that_the_recorder_missed(self, late: Path) -> None:
        edit(late / "jobs/j/t__late/result.json", agent_execution=None)
        rewrite(late / "sinks/t__late.jsonl", lambda lines: lines[:1])
        record = read(late / "jobs/j/t__late", late / "sinks")
        assert reported(record) == {Issue.CALL_LOST: 1}
        assert record.completeness is Completeness.INCOMPLETE

    def test_another_harness_counts_otherwise(self, late: Path) -> None:
        """Its steps need not be calls."""
        edit(
            late / "jobs/j/t__late/result.json",
            agent_execution=None,
            **{"agent_result.metadata": None},
        )
        rewrite(late / "sinks/t__late.jsonl", lambda lines: lines[:1])
        assert reported(read(late / "jobs/j/t__late", late / "sinks")) == {}


class TestHarborsOwn:
    @pytest.mark.parametrize("root", REAL, ids=lambda root: root.name)
    def test_no_false_alarm(self, root: Path) -> None:
        """One real trial lost a completion, in one an answer was cut off; all else is recorded."""
        trial = read_found(found_at(root, root.parent), BuildOptions())
        cut = "18-output-length" in root.parts
        lost = cut or "09b-no-token-ids-one-turn" in root.parts
        for record in trial.records:
            assert reported(record) == ({Issue.CALL_LOST: 1} if cut else {})
            assert record.completeness is (Completeness.INCOMPLETE if lost else Completeness.SILENT)

    def copy(self, case: str, to: Path) -> Path:
        source = next((FIXTURES / "trials" / case).glob("jobs/*/*__*"))
        return Path(shutil.copytree(source, to / source.name))

    def test_more_calls_than_turns(self, tmp_path: Path) -> None:
        root = self.copy("01-solved", tmp_path)
        edit(root / "result.json", **{"agent_result.metadata.n_episodes": 3})
        assert reported(read(root)) == {Issue.CALLS_BEYOND_TURNS: 2}

    def test_a_call_that_was_timed_and_not_recorded(self, tmp_path: Path) -> None:
        root = self.copy("01-solved", tmp_path)
        result = json.loads((root / "result.json").read_text())
        for rows in result["agent_result"]["rollout_details"][0].values():
            if isinstance(rows, list):
                del rows[2]
        trajectory = json.loads((root / "agent/trajectory.json").read_text())
        steps = [s for s in trajectory["steps"] if s["source"] == "agent"]
        for key in ("prompt_token_ids", "completion_token_ids", "logprobs"):
            del steps[2]["metrics"][key]
        (root / "result.json").write_text(json.dumps(result))
        (root / "agent/trajectory.json").write_text(json.dumps(trajectory))
        record = read(root)
        assert reported(record) == {Issue.CALL_LOST: 1}
        assert record.completeness is Completeness.INCOMPLETE
        (root / "result.json").unlink()
        record = read(root)
        assert (reported(record), len(record.spans)) == ({Issue.CALL_LOST: 1}, 4)

    def test_a_step_after_the_agents_end(self, tmp_path: Path) -> None:
        root = self.copy("01-solved", tmp_path)
        trajectory = json.loads((root / "agent/trajectory.json").read_text())
        trajectory["steps"][-1]["timestamp"] = "2036-01-01T00:00:00+00:00"
        (root / "agent/trajectory.json").write_text(json.dumps(trajectory))
        assert reported(read(root)) == {Issue.CALL_AFTER_END: 1}

    @pytest.mark.parametrize("how", ["killed", "empty", "null", "no key", "no agent_result"])
    def test_summarizers_are_read_from_their_own_files(self, tmp_path: Path, how: str) -> None:
        """The files hold what the result holds: the same segments, ids and log-probabilities."""
        root = self.copy("06b-summarize-reactive-context-error", tmp_path)
        whole = read(root)
        if how == "killed":
            (root / "result.json").unlink()
        else:
            result = json.loads((root / "result.json").read_text())
            agent = result["agent_result"]
            agent["rollout_details"] = [] if how == "empty" else None
            if how == "no key":
                del agent["rollout_details"]
            if how == "no agent_result":
                result["agent_result"] = None
            (root / "result.json").write_text(json.dumps(result))
        record = read(root)
        assert record.span_source is SpanSource.TRAJECTORY
        assert record.segments == whole.segments
        assert record.segments[1:] == (SegmentInfo(SegmentKind.SUMMARIZER),) * 3
        assert [calls(span) for span in record.spans] == [calls(span) for span in whole.spans]
        assert record.completeness is Completeness.SILENT


def calls(span: Any) -> tuple[Any, ...]:
    return (
        span.segment,
        span.call_index,
        span.prompt_token_ids.tolist(),
        span.sampled_token_ids.tolist(),
        span.sampled_logprobs.tolist(),
    )
