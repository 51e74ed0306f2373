"""prime-rl's `TrainingSample`: unshifted, every per-token list of one length."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from wmo_distill.datums.dataset import DatumRow
from wmo_distill.exporters.experts import experts_array, experts_value
from wmo_distill.exporters.target import Place, Target, trained


def training_sample(row: DatumRow, place: Place) -> Mapping[str, Any]:
    """By field name. `temperatures` are what the trainer divides its logits by.

    That is the sampling temperature for log-probabilities taken after it, 1 for raw ones.
    """
    datum = row.datum
    processed = row.logprob_mode == "processed"
    temperature = row.temperature if processed else 1.0
    sample = {
        "token_ids": datum.token_ids,
        "mask": trained(row),
        # off the mask nothing reads them
        "logprobs": np.where(datum.loss_mask, datum.sampled_logprobs, 0.0),
        "temperatures": np.full(datum.token_ids.size, temperature),
        "env_name": row.job or "harbor",
        "advantages": datum.advantages,
    }
    if row.weight != 1.0:
        sample["rl_weights"] = np.where(datum.loss_mask, row.weight, 0.0)
    if datum.teacher_logprobs is not None:
        sample["ref_logprobs"] = np.nan_to_num(datum.teacher_logprobs, nan=0.0)
    if datum.routed_experts is not None:
        sample["routed_experts"] = experts_value(datum.routed_experts, datum.token_ids.size)
    return sample


def training_samples(
    rows: Iterable[Mapping[str, Any]], make: Callable[..., Any], experts: Callable[..., Any]
) -> list[Any]:
    """`TrainingSample`s of prime-rl from exported rows, or lines of the file.

    `make` and `experts` are its classes `TrainingSample` and `RoutedExperts`: fields are given by
    name, so that their order, which differs between its versions, does not matter.
    """
    samples = []
    for row in rows:
        fields = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in row.items()}
        if routed := fields.get("routed_experts"):
            array = experts_array(routed)
            fields["routed_experts"] = experts(
                data=array.tobytes(), shape=list(array.shape), dtype=array.dtype.name
            )
        samples.append(make(**fields))
    return samples


TARGETS = (
    Target(
        name="prime-rl",
        about="prime-rl TrainingSample as JSON lines",
        convert=training_sample,
        purpose="rl",
        carries=frozenset({"advantages", "teacher_logprobs", "weight", "routed_experts"}),
        needs_advantages=True,
        needs_temperature=True,
    ),
)
