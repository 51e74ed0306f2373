"""Results of a form that we do not know are not readable; an answer of no tokens is not lost."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.trials.test_completeness import FIXTURES, edit, read
from wmo_distill.issues import Issue
from wmo_distill.records import Completeness, SpanSource


class TestSchemaVersion:
    @pytest.mark.parametrize("version", [2, 0, "1", 1.0, True, None, []])
    @pytest.mark.parametrize("where", ["schema_version", "config.schema_version"])
    def test_another_form_is_no_readable_result(
        self, tmp_path: Path, where: str, version: Any
    ) -> None:
        """What it says of grade, ending and sampling is not taken; the trajectory's tokens are."""
        source = next((FIXTURES / "trials/01-solved").glob("jobs/*/*__*"))
        root = Path(shutil.copytree(source, tmp_path / source.name))
        edit(root / "result.json", **{where: version})
        record = read(root)
        assert Issue.RESULT_VERSION_UNKNOWN in record.issues
        assert (record.reward, record.reward_valid, record.trial_id) == (None, None, None)
        assert record.span_source is SpanSource.TRAJECTORY

    def test_the_form_that_we_know(self, tmp_path: Path) -> None:
        source = next((FIXTURES / "trials/01-solved").glob("jobs/*/*__*"))
        root = Path(shutil.copytree(source, tmp_path / source.name))
        edit(root / "result.json", **{"schema_version": 1, "config.schema_version": 1})
        assert read(root).issues == ()

    def test_a_config_of_another_form(self, tmp_path: Path) -> None:
        """Without a readable result the trial's own config is asked for."""
        source = next((FIXTURES / "trials/01-solved").glob("jobs/*/*__*"))
        root = Path(shutil.copytree(source, tmp_path / source.name))
        (root / "result.json").unlink()
        edit(root / "config.json", schema_version=2)
        record = read(root)
        assert {Issue.RESULT_MISSING, Issue.RESULT_VERSION_UNKNOWN, Issue.CONFIG_UNREADABLE} <= set(
            record.issues
        )


@pytest.mark.parametrize(
    ("counted", "verdict"),
    [(0, Completeness.SILENT), (3, Completeness.INCOMPLETE), (None, Completeness.INCOMPLETE)],
)
def test_an_answer_of_no_tokens_is_not_a_lost_one(
    tmp_path: Path, counted: int | None, verdict: Completeness
) -> None:
    """Harbor leaves out the ids of both; the count of tokens tells them apart."""
    prompts, sampled = [[1], [1, 2, 3], [1, 2, 3, 4]], [[2], None, [5]]
    steps = []
    for prompt, ids in zip(prompts, sampled, strict=True):
        metrics: dict[str, Any] = {"prompt_token_ids": prompt}
        if ids is None:
            metrics |= {} if counted is None else {"completion_tokens": counted}
        else:
            metrics |= {
                "completion_tokens": 1, "completion_token_ids": ids, "logprobs": [-1.0],
            }  # fmt: skip
        steps.append({"source": "agent", "message": "Analysis: x", "metrics": metrics})
    kept = [ids for ids in sampled if ids is not None]
    details = {
        "prompt_token_ids": prompts, "completion_token_ids": kept, "logprobs": [[-1.0]] * 2,
    }  # fmt: skip
    result = {
        "id": "t", "trial_name": "t", "config": {"trial_name": "t"},
        "agent_result": {"rollout_details": [details], "metadata": {"n_episodes": 3}},
    }  # fmt: skip
    (tmp_path / "t/agent").mkdir(parents=True)
    (tmp_path / "t/result.json").write_text(json.dumps(result))
    document = {"schema_version": "ATIF-v1.8", "steps": steps}
    (tmp_path / "t/agent/trajectory.json").write_text(json.dumps(document))
    assert read(tmp_path / "t").completeness is verdict
