"""One row of a rollouts file: how a rollout was graded, and the calls that it holds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wmo_distill.files import Absent, TrialFiles, plain_text
from wmo_distill.records import Completeness, StopReason
from wmo_distill.sources.nemo_gym.lines import NAMES, experts_of, reader
from wmo_distill.sources.recorded import Call
from wmo_distill.sources.values import at
from wmo_distill.tokenjson.rows import id_row, logprob_row

# What the collector says of a rollout that it could not finish.
_FAILURES = {"agent_timeout": StopReason.BUDGET, "environment_server_failed": StopReason.ERROR}
_ENDINGS = {"max_output_tokens": StopReason.OUTPUT_TRUNCATED}
_SAMPLING = ("temperature", "top_p", "top_k")


@dataclass(frozen=True, slots=True)
class Rollout:
    """A row, and its calls in order."""

    value: Mapping[str, Any]
    calls: Sequence[Call] = ()

    @property
    def failure(self) -> str | None:
        """Why the rollout has no grade; its recorded reward is a default."""
        value = self.value.get("_ng_failure_class")
        return value if isinstance(value, str) else None

    @property
    def rewards(self) -> Mapping[str, object]:
        if self.failure is not None or self.value.get("reward") is None:
            return {}
        return {"reward": self.value["reward"]}

    @property
    def agent(self) -> Any:
        return at(self.value, "agent_ref", "name")

    @property
    def model(self) -> Any:
        return at(self.value, "response", "model")

    @property
    def ending(self) -> StopReason:
        if self.failure is not None:
            return _FAILURES.get(self.failure, StopReason.UNKNOWN)
        reason = at(self.value, "response", "incomplete_details", "reason")
        known = _ENDINGS.get(reason) if isinstance(reason, str) else None
        return known or StopReason.UNKNOWN

    @property
    def sampling(self) -> dict[str, object]:
        """Arguments of the request, else those that the answer repeats."""
        asked = at(self.value, "responses_create_params")
        found = {name: at(asked, name) for name in _SAMPLING}
        for name, value in found.items():
            if value is None:
                found[name] = at(self.value, "response", name)
        return {name: value for name, value in found.items() if value is not None}

    @property
    def n_calls(self) -> int:
        """Calls of the capture that the row was rebuilt from, 0 where it was not."""
        n = at(self.value, "_ng_token_capture", "n_calls")
        return n if type(n) is int and n > 0 else 0

    @property
    def declared(self) -> Completeness:
        """What the row says of its calls; one that was rebuilt whole is complete."""
        capture = self.value.get("_ng_token_capture")
        if not isinstance(capture, dict):
            return Completeness.SILENT
        if capture.get("capture_incomplete") or capture.get("error") or self.is_masked_by_capture:
            return Completeness.INCOMPLETE
        whole = self.n_calls == len(self.calls) and not self.is_masked
        return Completeness.COMPLETE if whole else Completeness.SILENT

    @property
    def is_masked(self) -> bool:
        """Whether Gym says that the rollout is not to be trained."""
        return self.value.get("mask_sample") is True

    @property
    def is_masked_by_capture(self) -> bool:
        """Whether it says so because of how the calls were recorded, not of how they were graded.

        Gym rebuilds one chain of calls, and masks what it cannot put into one.
        """
        capture = self.value.get("_ng_token_capture")
        if not self.is_masked or not isinstance(capture, dict):
            return False
        whole = (
            capture.get("chains") == 1
            and not capture.get("quarantined_calls")
            and capture.get("delivered_fraction") == 1
        )
        return bool(capture.get("capture_incomplete") or capture.get("error")) or not whole


def read_rollout(
    files: TrialFiles, name: str, start: int, size: int, *, extra: bool
) -> Rollout | None:
    """The row at an offset of a file, None where it cannot be read."""
    data = files.read(name, size, start)
    value = None if isinstance(data, Absent) else reader().read(data)
    return Rollout(value, tuple(_calls(value, extra))) if isinstance(value, dict) else None


def _calls(row: Mapping[str, Any], extra: bool) -> Iterator[Call]:
    """One a generated item; the last has the word for why the answer broke off."""
    output = at(row, "response", "output")
    items = [
        item
        for item in (output if isinstance(output, list) else ())
        if isinstance(item, dict) and any(item.get(name) is not None for name in NAMES)
    ]
    reason = at(row, "response", "incomplete_details", "reason")
    for index, item in enumerate(items):
        is_last = index == len(items) - 1
        yield Call(
            index,
            id_row(item.get(NAMES.prompt)),
            id_row(item.get(NAMES.completion)),
            logprob_row(item.get(NAMES.logprobs)),
            experts_of(item) if extra else None,
            plain_text(reason) if is_last and isinstance(reason, str) else None,
        )
