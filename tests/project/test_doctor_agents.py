"""What `doctor` says of each kind of agent, with tokens and without."""

import json
import shutil
from pathlib import Path
from typing import Any

from tests.project.test_doctor import TRIALS, missing
from wmo_distill.doctor.diagnose import diagnose


def made(root: Path, name: str, *, agent: dict[str, Any], tokens: bool = False) -> Path:
    """A trial of another agent; its harness counts no turns and writes no tokens."""
    source = next((TRIALS / "01-solved").glob("jobs/*/*__*"))
    trial = Path(shutil.copytree(source, root / "job" / name))
    for file in ("config.json", "result.json"):
        document = json.loads((trial / file).read_text())
        document.get("config", document)["agent"] = {"kwargs": {}, "model_name": "m", **agent}
        if file == "result.json":
            document["id"] = name
            if not tokens:
                document["agent_result"] |= {"rollout_details": None, "metadata": None}
                shutil.rmtree(trial / "agent")
        (trial / file).write_text(json.dumps(document))
    return trial


def test_each_kind_of_agent_gets_the_right_word(tmp_path: Path) -> None:
    made(tmp_path, "a", agent={"name": "oracle"})
    made(tmp_path, "b", agent={"name": "nop"})
    found = diagnose([tmp_path])
    assert found.advice == ()
    assert found.sample.without_tokens == {"no model was sampled": 2}
    made(tmp_path, "c", agent={"name": "claude-code"})
    made(tmp_path, "d", agent={"name": None, "import_path": "mine.agent:Agent"})
    made(tmp_path, "e", agent={"name": "shiny"})
    made(tmp_path, "f", agent={"name": "terminus-2"})
    of = {advice.missing: advice.of for advice in diagnose([tmp_path]).advice}
    assert of == {
        "token collection is off": "1 of 1 trials of agents that can record",
        "a token recorder": "1 of 6 trials",
        "an agent that we know": "2 of 6 trials",
        "the temperature, which no file records": "1 of 1 episodes that ran",
    }


def test_an_unknown_agent_with_tokens_is_not_misadvised(tmp_path: Path) -> None:
    made(tmp_path, "a", agent={"import_path": "mine.agent:Agent"}, tokens=True)
    assert not {"an agent that we know", "token collection is off"} & missing(tmp_path)


def test_what_sampled_nothing_is_in_no_count_of_tokens(tmp_path: Path) -> None:
    made(tmp_path, "a", agent={"name": "terminus-2"}, tokens=True)
    made(tmp_path, "b", agent={"name": "oracle"})
    made(tmp_path, "c", agent={"name": "claude-code"})
    of = {advice.missing: advice.of for advice in diagnose([tmp_path]).advice}
    assert of["the tokenizer"] == of["the policy version"] == "1 of 1 episodes with tokens"
