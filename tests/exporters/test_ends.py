"""How sequences ended, and how trainers compare those of a group: the words of each target."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.exporters.rows import datum_row
from tests.proof.chats import dataset
from wmo_distill.datums.dataset import DatumRow, iter_datums
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.datums.verify import verify_datums
from wmo_distill.exporters.nemo_rl import datum_spec_row
from wmo_distill.exporters.registry import TARGETS
from wmo_distill.exporters.run import ExportSummary, export_datums
from wmo_distill.exporters.skyrl import generator_row
from wmo_distill.exporters.slime import sample
from wmo_distill.exporters.target import Place, Refusal, SequenceEnd, sequence_end
from wmo_distill.exporters.trl import grpo_row
from wmo_distill.exporters.verl import agent_loop_row
from wmo_distill.options import BuildOptions
from wmo_distill.pipeline.build import build
from wmo_distill.predicates import aborted, cut_at_cap, finish_reason_of
from wmo_distill.records import LogprobMode, Sampling, StopReason, TrialRecord
from wmo_distill.tokens import TokenSpan

FAULTS = Path(__file__).parents[2] / "fixtures/faults"


PLACE = Place(0, 0, 0, 0, True)


DECLARED = BuildOptions(declare={"logprob_mode": "raw"})


def lines(out: Path, summary: ExportSummary) -> list[Any]:
    return [
        json.loads(line) for name in summary.files for line in (out / name).read_text().splitlines()
    ]


def exported(datums: Path, out: Path, target: str) -> list[Any]:
    return lines(out, export_datums(datums, out, target))


def test_the_length_that_a_sink_recorded_reaches_every_trainer(tmp_path: Path) -> None:
    """t__l1: the last of three calls is cut; t__l2: the first of two sequences is."""
    trials, sinks = FAULTS / "finish-reason-length/jobs", FAULTS / "finish-reason-length/sinks"
    build([trials], tmp_path / "s", DECLARED.model_copy(update={"sinks": sinks}), workers=1)
    datums = tmp_path / "d"
    build_datum_shards(tmp_path / "s", datums)
    assert verify_datums(datums) == []
    got = {
        (row.datum.trial_name, row.datum.fragment_index): row.datum.finish_reasons
        for row in iter_datums(datums)
    }
    assert got == {
        ("t__l1", 0): ("stop", "stop", "length"),
        ("t__l2", 0): ("length",),
        ("t__l2", 1): ("stop",),
    }
    words: dict[str, Callable[[Any], Any]] = {
        "skyrl": lambda row: row["stop_reasons"],
        "slime": lambda row: row["status"],
        "nemo-rl": lambda row: row["truncated"],
        "trl-grpo": lambda row: row["truncated"],
        "verl": lambda row: row["extra_fields"]["truncated"],
    }
    told = {
        name: [word(row) for row in exported(datums, tmp_path / name, name)]
        for name, word in words.items()
    }
    assert told["skyrl"] == ["length", "length", "stop"]
    assert told["slime"] == ["truncated", "truncated", "completed"]
    for name in ("nemo-rl", "trl-grpo", "verl"):
        assert told[name] == [True, True, False]


@pytest.mark.parametrize(
    "word",
    ["length", "max_tokens", "MAX_TOKENS", "FINISH_REASON_MAX_TOKENS", "max_output_tokens",
     "FinishReason.MAX_TOKENS", "STOP_REASON_LENGTH", "Length", "model_length"],
)  # fmt: skip
def test_providers_words_for_a_token_limit(word: str) -> None:
    assert cut_at_cap(word) is True
    assert aborted(word) is False
    assert sequence_end(row([None, word])) is SequenceEnd.CUT


@pytest.mark.parametrize("word", ["stop", "tool_calls", "end_turn", "STOP", "", "content_filter"])
def test_providers_words_for_another_end(word: str) -> None:
    assert cut_at_cap(word) is aborted(word) is False


@pytest.mark.parametrize(
    ("recorded", "stop", "want"),
    [
        ("stop", "length", "stop"),
        (None, "max_tokens", "max_tokens"),
        (None, "</tool>", None),  # vLLM: the stop string that was met
        (None, 151645, None),
        ({"type": "length", "length": 4096}, None, "length"),  # SGLang's own interface
        ({"length": 1}, None, None),
        (7, None, None),
    ],
)
def test_where_providers_put_the_word(recorded: Any, stop: Any, want: str | None) -> None:
    assert finish_reason_of(recorded, stop) == want


def test_an_extra_s_stop_reason_reaches_the_export(tmp_path: Path) -> None:
    """Harbor's own files hold what the provider sent next to the tokens, a list a chat."""
    shutil.copytree(FAULTS / "finish-reason-length/jobs", tmp_path / "jobs")
    for name, words in (("t__l1", [None, None, "max_tokens"]), ("t__l2", [None, 7])):
        file = tmp_path / f"jobs/j/{name}/result.json"
        result = json.loads(file.read_text())
        sink = FAULTS / f"finish-reason-length/sinks/{name}.jsonl"
        calls = [json.loads(line) for line in sink.read_text().splitlines()]
        result["agent_result"]["rollout_details"] = [
            {
                "prompt_token_ids": [one["prompt_token_ids"] for one in calls],
                "completion_token_ids": [one["sampled_token_ids"] for one in calls],
                "logprobs": [one["sampled_logprobs"] for one in calls],
                "extra": {"stop_reason": words},
            }
        ]
        file.write_text(json.dumps(result))
    build([tmp_path / "jobs"], tmp_path / "s", DECLARED, workers=1)
    build_datum_shards(tmp_path / "s", tmp_path / "d")
    got = exported(tmp_path / "d", tmp_path / "x", "skyrl")
    assert [one["stop_reasons"] for one in got] == ["length", "stop", "stop"]


def test_no_word_is_unknown() -> None:
    assert cut_at_cap(None) is aborted(None) is None


def row(reasons: list[str | None], *, ends_chat: bool = True, **values: Any) -> DatumRow:
    changes = {"finish_reasons": tuple(reasons), "ends_chat": ends_chat}
    return datum_row([(3, 2)] * len(reasons), changes=changes, **values)


@pytest.mark.parametrize(
    ("reasons", "ends_chat", "stop_reason", "end", "status"),
    [
        # the last sampled run decides, not an earlier one
        (["length", "stop"], True, "submitted", "finished", "completed"),
        (["stop", "length"], True, "submitted", "cut", "truncated"),
        (["length"], False, "submitted", "cut", "truncated"),
        # the last of an episode that was cut; the sequences before it were not
        ([None], True, "output_truncated", "cut", "truncated"),
        ([None], False, "output_truncated", "finished", "completed"),
        ([None], True, "context_overflow", "cut", "truncated"),
        ([None], False, "context_overflow", "finished", "completed"),
        # what was recorded outranks what is inferred
        (["stop"], True, "output_truncated", "finished", "truncated"),
        (["abort"], True, "submitted", "aborted", "aborted"),
        ([None], True, "cancelled", "finished", "aborted"),
        ([None], False, "cancelled", "finished", "completed"),
        ([None], True, "provider_error", "finished", "failed"),
        ([None], False, "max_turns", "finished", "completed"),
        ([None], True, "max_turns", "finished", "truncated"),
    ],
)
def test_each_sequence_has_its_own_end(
    reasons: list[str | None], ends_chat: bool, stop_reason: str, end: str, status: str
) -> None:
    one = row(reasons, ends_chat=ends_chat, stop_reason=stop_reason)
    assert sequence_end(one) == end
    skyrl = {"finished": "stop", "cut": "length", "aborted": "abort"}[end]
    assert generator_row(one, PLACE)["stop_reasons"] == skyrl
    assert sample(one, PLACE)["status"] == status
    for told in (
        datum_spec_row(one, PLACE),
        grpo_row(one, PLACE),
        agent_loop_row(one, PLACE)["extra_fields"],
    ):
        assert told["truncated"] is (end == "cut")


def record(number: int, spans: list[TokenSpan], **changes: Any) -> TrialRecord:
    values: dict[str, Any] = {
        "episode_id": f"e{number}",
        "trial_id": f"e{number}",
        "trial_name": f"t{number}",
        "artifact_dir": f"t{number}",
        "group_id": f"g{number // 4}",
        "reward": 0.0,
        "reward_valid": True,
        "stop_reason": StopReason.SUBMITTED,
        "sampled_with": Sampling(logprob_mode=LogprobMode.RAW),
    }
    return TrialRecord(**{**values, "spans": tuple(spans), **changes})


def call(index: int, prompt: list[int], sampled: list[int], **more: Any) -> TokenSpan:
    return TokenSpan(index, prompt, sampled, [-0.5] * len(sampled), **more)


def test_the_end_of_a_chat_is_that_of_its_last_call(tmp_path: Path) -> None:
    """A rollback goes on with an earlier sequence; a sequence that is left out ends nothing."""
    rollback = [call(0, [1], [2]), call(1, [9], [8]), call(2, [1, 2, 3], [4])]
    cut = {"stop_reason": StopReason.OUTPUT_TRUNCATED}
    shards = dataset(tmp_path / "s", [record(0, rollback, **cut)])
    for options, want in (
        (DatumOptions(reopen=True), [("cut", 4), ("finished", 2)]),
        (DatumOptions(), [("finished", 2), ("finished", 2), ("cut", 4)]),
        (DatumOptions(max_datum_tokens=3), [("finished", 2), ("finished", 2)]),
    ):
        build_datum_shards(shards, tmp_path / "d", options, fresh=True)
        assert verify_datums(tmp_path / "d") == []
        found = list(iter_datums(tmp_path / "d"))
        assert [(sequence_end(one), one.datum.token_ids.size) for one in found] == want


def test_a_subagent_does_not_end_the_chat(tmp_path: Path) -> None:
    spans = [call(0, [1], [2]), call(0, [5], [6], segment=1)]
    one = record(0, spans, stop_reason=StopReason.OUTPUT_TRUNCATED)
    shards = dataset(tmp_path / "s", [one])
    build_datum_shards(shards, tmp_path / "d", DatumOptions(subagents=True))
    got = {r.datum.segment: sequence_end(r) for r in iter_datums(tmp_path / "d")}
    assert got == {0: "cut", 1: "finished"}


def test_implausible_log_probabilities_of_a_supervised_build_are_refused() -> None:
    one = datum_row()
    at = int(np.flatnonzero(one.datum.loss_mask)[0])
    one.datum.sampled_logprobs[at] = -1e16
    for target in TARGETS.values():
        want = Refusal.LOGPROB_IMPLAUSIBLE if target.purpose == "rl" else None
        assert target.refusal(one) is want
