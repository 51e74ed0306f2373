"""Scores by tinker's sampling client."""

import math
from typing import Any

import numpy as np

from wmo_distill.arrays import Ids
from wmo_distill.datums.topk import Candidates
from wmo_distill.errors import UsageError
from wmo_distill.scorers.scorer import Score, ScoreError, ScoreFault


class TinkerScorer:
    """`client` is a `tinker.SamplingClient`: `compute_logprobs`, and `sample` for the likeliest."""

    def __init__(self, client: Any, tokenizer: str | None = None) -> None:
        self._client, self.tokenizer = client, tokenizer

    def score(self, token_ids: Ids, top_k: int) -> Score:
        from tinker import types

        prompt = types.ModelInput.from_ints(token_ids.tolist())
        try:
            if not top_k:
                return Score(_numbers(self._client.compute_logprobs(prompt).result()))
            answer = self._client.sample(
                prompt=prompt,
                num_samples=1,
                sampling_params=types.SamplingParams(max_tokens=1),
                include_prompt_logprobs=True,
                topk_prompt_logprobs=top_k,
            ).result()
        except Exception as error:  # the SDK retries what can be retried
            refused = getattr(error, "status_code", None) in (400, 404, 413, 422)
            fault = ScoreFault.REFUSED if refused else ScoreFault.UNAVAILABLE
            raise ScoreError(fault, f"{type(error).__name__}: {error}") from error
        top: list[Candidates | None] = [
            None if row is None else [(int(token), float(value)) for token, value in row]
            for row in answer.topk_prompt_logprobs or []
        ]
        return Score(_numbers(answer.prompt_logprobs), [None, *top[1:]] if top else top)

    def close(self) -> None:
        """The SDK's futures cannot be given up."""


def _numbers(values: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([math.nan if x is None else x for x in values or []], np.float64)


def tinker_scorer(
    *, model_path: str | None = None, base_model: str | None = None, tokenizer: str | None = None
) -> TinkerScorer:
    """A scorer of weights saved on the service, or of a base model."""
    try:
        import tinker
    except ImportError:
        raise UsageError(
            "--scorer tinker: expected the SDK, found none; install it with: pip install tinker"
        ) from None
    client = tinker.ServiceClient().create_sampling_client(
        model_path=model_path, base_model=base_model
    )
    return TinkerScorer(client, tokenizer)
