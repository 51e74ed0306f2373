"""The entry points of world-model-optimizer 0.2.0 under their own names and signatures.

They follow its published rules: no salvage, and `stop_reason` is its own word. Ids obey the rule
of `TokenSpan`; id fields are int32 arrays, whose `tolist()` gives the reference's lists. A file
that is there and cannot be read is a ReadFault, never taken for a missing one.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from wmo_distill.disk import RegularFile
from wmo_distill.files import Absent, TrialFiles, parse_json
from wmo_distill.limits import TooLarge
from wmo_distill.records import ScoreCell, TrialRecord
from wmo_distill.sources.evidence import EndingEvidence
from wmo_distill.sources.harbor.calls import entry_lists
from wmo_distill.sources.harbor.documents import read_result
from wmo_distill.sources.harbor.reading import episode_count, exception_of
from wmo_distill.sources.harbor.trajectory import read_trajectory
from wmo_distill.sources.run_trace import read_run_trace
from wmo_distill.sources.sink import recorded_extra
from wmo_distill.tokenjson.extras import json_text
from wmo_distill.tokenjson.rows import id_row, logprob_row
from wmo_distill.tokens import TokenSpan
from wmo_distill.trials.calls import SpanChain
from wmo_distill.trials.ending import reference_stop_reason
from wmo_distill.trials.lists import whole_calls

PathLike = str | os.PathLike[str]
_T = TypeVar("_T")
_INDEX = TypeAdapter(int)
_LOGPROBS = TypeAdapter(list[float])
_BOM = b"\xef\xbb\xbf"


class _Files(TrialFiles):
    """Files as the reference reads them: one that begins with a byte order mark is unreadable."""

    def open(self, relative: str) -> RegularFile | Absent:
        opened = super().open(relative)
        if isinstance(opened, Absent):
            return opened
        if opened.read(len(_BOM)) == _BOM:
            opened.close()
            return Absent.UNREADABLE
        opened.seek(0)
        return opened


def load_trial_rollout_spans(artifact_dir: PathLike) -> list[TokenSpan]:
    """The main chat's calls in a trial's result.json; none if anything about them is wrong."""
    try:
        read = read_result(_Files(Path(artifact_dir)))
    except TooLarge:
        return []
    if isinstance(read, Absent) or not isinstance(read.value, dict):
        return []
    agent = read.value.get("agent_result")
    details = agent.get("rollout_details") if isinstance(agent, dict) else None
    if not isinstance(details, list) or not details:
        return []
    chain = SpanChain(0)
    for call in whole_calls(entry_lists(details[0])) or ():
        chain.link(call, call.completion.delta, call.logprobs.values)
    return chain.spans


def load_trial_spans(sink_dir: PathLike, trial_name: str) -> list[TokenSpan]:
    """The calls of a token sink, none without a file; ValueError for a corrupt one."""
    name = f"{trial_name}.jsonl"
    data = TrialFiles(Path(sink_dir)).read(name)
    if data is Absent.MISSING:
        return []
    where = Path(sink_dir) / name
    if isinstance(data, Absent):
        raise ValueError(f"{where}: expected a readable file")
    lines = [line for line in data.split(b"\n") if line.strip()]
    spans = [_sink_span(line, f"{where}, line {n}") for n, line in enumerate(lines, 1)]
    found = [span.call_index for span in spans]
    if found != list(range(len(spans))):
        raise ValueError(
            f"{where}: expected call_index 0..{len(spans) - 1} in order, found {found}"
        )
    return spans


def read_terminus_stop_reason(artifact_dir: PathLike, *, max_turns: int) -> str | None:
    """Why a terminus-2 episode ended, None if its result says too little."""
    files = _Files(Path(artifact_dir))
    try:
        read = read_result(files)
        submitted = read_trajectory(files, "agent").reference_submitted
    except TooLarge:
        return None
    if isinstance(read, Absent) or not isinstance(read.value, dict):
        return None
    result = read.value
    raised = result.get("exception_info")
    return reference_stop_reason(
        EndingEvidence(
            exception=exception_of(raised, result, agent_result=True, copied=False),
            n_episodes=episode_count(result.get("agent_result")),
            cap=max_turns,
            reference_submitted=submitted,
        )
    )


def read_trial_stop_reason(artifact_dir: PathLike) -> str | None:
    """The stop reason that the run trace of a recorded agent holds."""
    try:
        return read_run_trace(_Files(Path(artifact_dir)), "").reference_word
    except TooLarge:
        return None


def assemble_harbor_trial_records(
    cells: Sequence[ScoreCell], *, max_turns: int
) -> list[TrialRecord]:
    """A record for each cell, from Harbor's own files; ValueError for a cell without directory."""
    return [
        _record(
            cell,
            load_trial_rollout_spans(cell.artifact_dir),
            read_terminus_stop_reason(cell.artifact_dir, max_turns=max_turns),
        )
        for cell in _named(cells)
    ]


def assemble_trial_records(
    cells: Sequence[ScoreCell],
    sink_dir: PathLike,
    *,
    read_stop_reason: Callable[[str], str | None] | None = None,
) -> list[TrialRecord]:
    """A record for each cell, from token sinks; ValueError for a corrupt sink."""
    read = read_stop_reason or read_trial_stop_reason
    return [
        _record(cell, load_trial_spans(sink_dir, trial_name(cell)), read(cell.artifact_dir))
        for cell in _named(cells)
    ]


def trial_name(cell: ScoreCell) -> str:
    """The base name of the cell's directory."""
    return Path(cell.artifact_dir).name


def _named(cells: Sequence[ScoreCell]) -> Sequence[ScoreCell]:
    for cell in cells:
        if not trial_name(cell):
            raise ValueError(
                f"cell of task {cell.task_id!r}, attempt {cell.attempt}: expected a trial "
                f"directory in artifact_dir, found {cell.artifact_dir!r}"
            )
    return cells


def _record(cell: ScoreCell, spans: list[TokenSpan], stop_reason: str | None) -> TrialRecord:
    return TrialRecord(
        trial_name=trial_name(cell),
        task_id=cell.task_id,
        attempt=cell.attempt,
        artifact_dir=cell.artifact_dir,
        reward=cell.reward,
        passed=cell.passed,
        infra_failed=bool(cell.infra_failed),
        tests=cell.tests,
        note=cell.note,
        stop_reason=stop_reason,
        spans=tuple(spans),
    )


def _sink_span(line: bytes, where: str) -> TokenSpan:
    value = None if line.startswith(_BOM) else parse_json(line)
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected a JSON object")
    index = _lax(_INDEX, value.get("call_index"))
    if index is None:
        raise ValueError(
            f"{where}: expected an integer call_index, found {value.get('call_index')!r}"
        )
    prompt = id_row(value.get("prompt_token_ids")).delta
    sampled = id_row(value.get("sampled_token_ids")).delta
    if prompt is None or sampled is None:
        raise ValueError(f"{where}: expected lists of token ids in [0, 2^31)")
    row = logprob_row(value.get("sampled_logprobs"))
    logprobs = row.values if not row.nulls else None
    if logprobs is None:
        logprobs = logprob_row(_lax(_LOGPROBS, value.get("sampled_logprobs"))).values
    if logprobs is None:
        raise ValueError(f"{where}: expected a list of numbers in sampled_logprobs")
    if logprobs.size != sampled.size:
        raise ValueError(
            f"{where}: expected {sampled.size} log-probabilities, found {logprobs.size}"
        )
    reason = value.get("finish_reason")
    extra = recorded_extra(value)
    return TokenSpan(
        index,
        prompt,
        sampled,
        logprobs,
        finish_reason=reason if isinstance(reason, str) else None,
        extra=json_text(extra) if extra else None,
    )


def _lax(wanted: TypeAdapter[_T], value: object) -> _T | None:
    """A value as the reference's models take it: "1", 1.0 and true are numbers."""
    try:
        return wanted.validate_python(value)
    except ValidationError:
        return None
