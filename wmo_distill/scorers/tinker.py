"""Scores by tinker's sampling client."""

import os
from typing import Any

import numpy as np

from wmo_distill.arrays import Ids
from wmo_distill.errors import UsageError
from wmo_distill.scorers.scorer import (
    Score,
    ScoreError,
    ScoreFault,
    candidates,
    number,
    without_key,
)


class TinkerScorer:
    """`client` is a `tinker.SamplingClient`: `compute_logprobs`, and `sample` for the likeliest."""

    def __init__(self, client: Any, tokenizer: str | None = None) -> None:
        self._client, self.tokenizer = client, tokenizer

    async def score(self, token_ids: Ids, top_k: int) -> Score:
        from tinker import types

        prompt = types.ModelInput.from_ints(token_ids.tolist())
        listed: Any = None
        try:
            if top_k:
                answer = await self._client.sample(
                    prompt=prompt,
                    num_samples=1,
                    sampling_params=types.SamplingParams(max_tokens=1),
                    include_prompt_logprobs=True,
                    topk_prompt_logprobs=top_k,
                )
                values, listed = answer.prompt_logprobs, answer.topk_prompt_logprobs or []
            else:
                values = await self._client.compute_logprobs(prompt)
        except Exception as error:  # the SDK retries what can be retried
            refused = getattr(error, "status_code", None) in (400, 404, 413, 422)
            fault = ScoreFault.REFUSED if refused else ScoreFault.UNAVAILABLE
            found = f"{type(error).__name__}: {error}"
            raise ScoreError(
                fault, without_key(found[:1000], os.environ.get("TINKER_API_KEY", ""))
            ) from None
        try:
            top = None if listed is None else [candidates(row, top_k) for row in listed]
            return Score(np.array([number(x) for x in values or []], np.float64), top)
        except TypeError:
            raise ScoreError(ScoreFault.UNREADABLE, "no lists in the answer") from None

    async def close(self) -> None:
        """The SDK keeps its connections."""


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
