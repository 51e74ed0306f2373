"""Trials whose names, model and versions are what nobody should run."""

import json
import shutil
from pathlib import Path
from typing import Any

from wmo_distill import build

TRIAL = Path(__file__).parents[2] / "fixtures" / "trials" / "01-solved"
SCRIPT = "</script><script>document.title='run'</script>"
NAMES = {
    "script": SCRIPT,
    "attribute": "\"'><img src=//evil.example/x onerror=document.title='run'>",
    "style": "</style></title></svg><body onload=document.title='run'>{{ 7*7 }}{% raw %}",
    "escape": "\x1b]0;owned\x07\x1b[2J\r\n\x00",
    "bidi": "abc\u202egnp.exe\u2066\u200b\u2028",
    "surrogate": "lone \ud800 one",
    "long": "line" * 250_000,
    "vega": "' + datum.x + toString({}) + '`${1}`",
}


def hostile_dataset(place: Path) -> Path:
    """A dataset with a trial for each name, used wherever a trial may name something."""
    (first,) = TRIAL.glob("jobs/*/*__*")
    for number, (folder, name) in enumerate(NAMES.items()):
        trial = place / "jobs" / folder
        shutil.copytree(first, trial)
        result: dict[str, Any] = json.loads((trial / "result.json").read_text())
        result["id"] = f"00000000-0000-0000-0000-{number:012d}"
        result["trial_name"] = result["task_name"] = result["source"] = name
        result["agent_info"] = {
            "name": name, "version": name, "model_info": {"name": name, "provider": name},
        }  # fmt: skip
        details = result["agent_result"]["rollout_details"][0]
        details["logprobs"][0][0] = -5e16
        details["prompt_token_ids"][-1] = None
        (trial / "result.json").write_text(json.dumps(result))
    out = place / "shards <b>&amp;"
    build(
        [place / "jobs"],
        out,
        workers=1,
        declare={"policy_version": SCRIPT, "tokenizer": "https://user:word@host/x?token=9f3c2b"},
    )
    return out
