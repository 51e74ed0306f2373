"""Runs of `verifiers` before 0.2.1: no `calls` and no agent in a trace, at first no task's data."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.sources.verifiers_bank import BANK, built, said_call, said_span
from wmo_distill.issues import Issue
from wmo_distill.sources.verifiers.chats import MAIN, chats_of
from wmo_distill.sources.verifiers.graph import graph_of

EARLY = BANK.parent / "verifiers-early"
"""Written by the packages' own classes; `expected.json` is what a stub of an engine sampled."""


@pytest.mark.parametrize("run", ["0.1.15.dev437", "0.2.0"])
def test_calls_and_what_only_the_run_or_the_node_says(run: str, tmp_path: Path) -> None:
    records = built(EARLY / run / "run", tmp_path)
    traces = json.loads((EARLY / run / "expected.json").read_text())["traces"]
    assert records.keys() == {trace["id"] for trace in traces}
    for trace in traces:
        record, calls = records[trace["id"]], trace["calls"]
        found = Counter((said_span(span), span.finish_reason) for span in record.spans)
        assert found == Counter((said_call(call), call["finish_reason"]) for call in calls)
        assert record.n_episodes == len(calls)
        assert record.model_name == "org/model-1"
        assert record.agent_name == "null"
        assert record.sampled_with.temperature == 0.7
        assert record.max_turns == 40
        assert record.group_expected == 2
        assert record.task_id not in (None, "task-None")
        assert record.task_checksum is not None
        assert Issue.MODELS_DIFFER not in record.issues


NODES = [("system", None), ("user", 0), ("assistant", 1), ("user", 0), ("assistant", 3)]
"""Two roots of one system message: the main chat's node 2, and node 4."""


def chats(*more: tuple[str, int | None], **links: tuple[int, str]) -> list[str]:
    """The chats of the sampled nodes; `links` of nodes by number: `n4=(2, "subagent_call")`."""
    nodes = [
        {
            "parent": parent,
            "sampled": role == "assistant",
            "message": {"role": role, "content": "x"},
            "token_ids": [i],
            "mask": [role == "assistant"],
            "semantic_parents": [
                {"node": at, "type": kind} for name, (at, kind) in links.items() if name == f"n{i}"
            ],
        }
        for i, (role, parent) in enumerate([*NODES, *more])
    ]
    return list(chats_of(graph_of(nodes), True).of.values())


def test_a_chat_goes_on_where_a_link_says_so() -> None:
    """A history that was written anew has no sampled node above; its chat is the linked call's."""
    anew = ("user", 0), ("assistant", 5)
    call = (2, "subagent_call")
    assert chats(*anew, n4=call) == [MAIN, "chat-1", MAIN]
    assert chats(*anew, n4=call, n6=(4, "continuation")) == [MAIN, "chat-1", "chat-1"]
    assert chats(*anew, n4=call, n6=(2, "continuation")) == [MAIN, "chat-1", MAIN]
    assert chats(*anew, n4=call, n6=(4, "agent_message")) == [MAIN, "chat-1", MAIN]
    tried = ("user", 4), ("assistant", 5), ("user", 0), ("assistant", 7)
    after = {"n4": call, "n6": (4, "compaction_attempt")}
    assert chats(*tried, **after, n8=(6, "compaction")) == [MAIN, *["chat-1"] * 3]
    assert chats(*tried, **after, n8=(6, "continuation")) == [MAIN, "chat-1", "chat-2", MAIN]
