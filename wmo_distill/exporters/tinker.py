"""tinker's `Datum`: shifted by one, in the forms of its advantage and cross-entropy losses."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmo_distill.datums.dataset import DatumRow
from wmo_distill.datums.datum import TrainDatum
from wmo_distill.exporters.target import Place, Target


def advantage_row(row: DatumRow, place: Place) -> Mapping[str, Any]:
    """For `importance_sampling` and `ppo`: masking is the advantage of 0, the weight is in it."""
    return _datum(row.datum, advantage_inputs(row.datum, row.weight))


def cross_entropy_row(row: DatumRow, place: Place) -> Mapping[str, Any]:
    """For `cross_entropy`."""
    return _datum(row.datum, cross_entropy_inputs(row.datum, row.weight))


def advantage_inputs(datum: TrainDatum, weight: float = 1.0) -> dict[str, NDArray[Any]]:
    """target_tokens int64, logprobs and advantages float32, all of tokens - 1.

    ValueError for a datum of fewer than 2 tokens, or one without advantages.
    """
    _long_enough(datum)
    if datum.advantages is None:
        raise ValueError(f"{_name(datum)}: expected advantages, found none; attach them first")
    return {
        "target_tokens": datum.token_ids[1:].astype(np.int64),
        "logprobs": datum.sampled_logprobs[1:].astype(np.float32),
        "advantages": np.where(datum.loss_mask, weight * datum.advantages, 0.0)[1:].astype(
            np.float32
        ),
    }


def cross_entropy_inputs(datum: TrainDatum, weight: float = 1.0) -> dict[str, NDArray[Any]]:
    """target_tokens int64 and weights float32, both of tokens - 1.

    ValueError for a datum of fewer than 2 tokens.
    """
    _long_enough(datum)
    targets = datum.token_ids if datum.target_ids is None else datum.target_ids
    weights = datum.loss_mask if datum.target_weights is None else datum.target_weights
    return {
        "target_tokens": targets[1:].astype(np.int64),
        "weights": (weight * weights[1:]).astype(np.float32),
    }


def tinker_datum(row: Mapping[str, Any]) -> Any:
    """The `tinker.Datum` of the installed SDK that a row, or a line of the file, describes."""
    from tinker import types

    (chunk,) = row["model_input"]["chunks"]
    return types.Datum(
        model_input=types.ModelInput.from_ints([int(x) for x in chunk["tokens"]]),
        loss_fn_inputs={
            name: types.TensorData.from_numpy(np.asarray(tensor["data"], tensor["dtype"]))
            for name, tensor in row["loss_fn_inputs"].items()
        },
    )


def tinker_datums(datums: Iterable[TrainDatum], *, supervised: bool = False) -> list[Any]:
    """`tinker.Datum` objects of the installed SDK."""
    inputs = cross_entropy_inputs if supervised else advantage_inputs
    return [tinker_datum(_datum(datum, inputs(datum))) for datum in datums]


def _datum(datum: TrainDatum, inputs: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    return {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": datum.token_ids[:-1]}]},
        "loss_fn_inputs": {
            name: {"data": values, "dtype": values.dtype.name, "shape": list(values.shape)}
            for name, values in inputs.items()
        },
    }


def _long_enough(datum: TrainDatum) -> None:
    if datum.token_ids.size < 2:
        raise ValueError(
            f"{_name(datum)}: expected at least 2 tokens, found {datum.token_ids.size}; "
            "nothing in it has a prefix to be predicted from"
        )


def _name(datum: TrainDatum) -> str:
    step = f"/{datum.step_name}" if datum.step_name else ""
    return f"datum {datum.trial_name}{step}, fragment {datum.fragment_index}"


TARGETS = (
    Target(
        name="tinker",
        about="tinker Datum as JSON lines, for importance_sampling and ppo",
        convert=advantage_row,
        purpose="rl",
        carries=frozenset({"advantages", "weight"}),
        needs_advantages=True,
    ),
    Target(
        name="tinker-sft",
        about="tinker Datum as JSON lines, for cross_entropy",
        convert=cross_entropy_row,
        purpose="sft",
        carries=frozenset({"weight"}),
    ),
)
