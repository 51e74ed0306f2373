"""tinker's forms: the shift, the loss inputs, and the SDK's own objects where it is installed."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.exporters.rows import datum_row
from wmo_distill.exporters.files import json_line
from wmo_distill.exporters.target import Place
from wmo_distill.exporters.tinker import (
    advantage_row,
    cross_entropy_row,
    tinker_datum,
    tinker_datums,
)

PLACE = Place(0, 0, 0, 0, True)


def written(row: Any) -> Any:
    return json.loads(json_line(row))


def test_advantage_form() -> None:
    row = datum_row()
    datum = row.datum
    got = written(advantage_row(row, PLACE))
    n = datum.token_ids.size - 1
    assert got["model_input"]["chunks"] == [
        {"type": "encoded_text", "tokens": datum.token_ids[:-1].tolist()}
    ]
    inputs = got["loss_fn_inputs"]
    assert sorted(inputs) == ["advantages", "logprobs", "target_tokens"]
    assert {k: (v["dtype"], v["shape"]) for k, v in inputs.items()} == {
        "target_tokens": ("int64", [n]),
        "logprobs": ("float32", [n]),
        "advantages": ("float32", [n]),
    }
    for j in range(n):
        assert inputs["target_tokens"]["data"][j] == datum.token_ids[j + 1]
        trained = bool(datum.loss_mask[j + 1])
        assert (inputs["advantages"]["data"][j] != 0) == trained
        assert inputs["logprobs"]["data"][j] == pytest.approx(datum.sampled_logprobs[j + 1])


def test_cross_entropy_form_and_replicas() -> None:
    row = datum_row()
    datum = row.datum
    inputs = written(cross_entropy_row(row, PLACE))["loss_fn_inputs"]
    assert sorted(inputs) == ["target_tokens", "weights"]
    assert inputs["weights"]["data"] == datum.loss_mask[1:].astype(float).tolist()
    copy = replace(
        datum,
        target_ids=datum.token_ids + 1,
        target_weights=np.where(datum.loss_mask, 0.25, 0.0),
    )
    inputs = written(cross_entropy_row(replace(row, datum=copy), PLACE))["loss_fn_inputs"]
    assert inputs["target_tokens"]["data"] == (datum.token_ids[1:] + 1).tolist()
    assert set(inputs["weights"]["data"]) == {0.0, 0.25}


def test_what_cannot_be_sent_names_the_datum() -> None:
    with pytest.raises(ValueError, match=r"trial-e0.*at least 2 tokens, found 1"):
        cross_entropy_row(datum_row([(0, 1)]), PLACE)
    with pytest.raises(ValueError, match="expected advantages"):
        advantage_row(datum_row(advantages=False), PLACE)


def test_sdk_objects() -> None:
    tinker = pytest.importorskip("tinker", reason="`make test-trainers` installs it")
    row = datum_row()
    (built,) = tinker_datums([row.datum])
    read = tinker_datum(written(advantage_row(row, PLACE)))
    for datum in (built, read):
        assert isinstance(datum, tinker.types.Datum)
        assert datum.model_input.to_ints() == row.datum.token_ids[:-1].tolist()
        assert {k: v.dtype for k, v in datum.loss_fn_inputs.items()} == {
            "target_tokens": "int64",
            "logprobs": "float32",
            "advantages": "float32",
        }
        sent = datum.loss_fn_inputs["logprobs"].to_numpy()
        assert np.array_equal(sent, row.datum.sampled_logprobs[1:].astype(np.float32))
