"""A small causal transformer, sampled from and scored with the same weights."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional

# Sequences scored at once.
_BATCH = 256


@dataclass(frozen=True, slots=True)
class Size:
    """About 38 000 parameters."""

    vocabulary: int = 64
    context: int = 256
    width: int = 32
    layers: int = 2
    heads: int = 2


class Block(nn.Module):
    """Attention and a feed-forward layer, each added to what it read."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.width
        self.heads = size.heads
        self.before_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        mixed = self.query_key_value(self.before_attention(x))
        # [batch, tokens, 3 * width] to three of [batch, heads, tokens, width / heads]
        query, key, value = mixed.view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, tokens, width))
        fed: Tensor = self.feed_forward(x)
        return x + fed


class Transformer(nn.Module):
    """ids [batch, tokens] to logits [batch, tokens, vocabulary] of the token that comes next."""

    def __init__(self, size: Size, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.size = size
        self.token = nn.Embedding(size.vocabulary, size.width)
        self.position = nn.Embedding(size.context, size.width)
        # What a token is counts for more than where it is.
        nn.init.normal_(self.position.weight, std=0.1)
        self.blocks = nn.Sequential(*(Block(size) for _ in range(size.layers)))
        self.head = nn.Sequential(nn.LayerNorm(size.width), nn.Linear(size.width, size.vocabulary))

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1])
        logits: Tensor = self.head(self.blocks(self.token(ids) + self.position(places)))
        return logits


@dataclass(frozen=True, slots=True)
class Sampled:
    """A completion and the log-probability that each token of it was drawn with."""

    ids: list[int]
    logprobs: list[float]


def padded(rows: Sequence[ArrayLike], dtype: torch.dtype) -> Tensor:
    """[rows, longest], zeros at the right; causal attention never sees them from the left."""
    tensors = [torch.as_tensor(np.asarray(row).copy(), dtype=dtype) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True)


def next_logprobs(model: Transformer, ids: Tensor) -> Tensor:
    """[batch, tokens - 1]: entry j is the log-probability of token j + 1 given those before."""
    logits = functional.log_softmax(model(ids[:, :-1]), dim=-1)
    return logits.gather(-1, ids[:, 1:, None]).squeeze(-1)


def score(model: Transformer, rows: Sequence[ArrayLike]) -> list[NDArray[np.float64]]:
    """For each row the log-probability of each of its tokens, NaN at the first."""
    scored: list[NDArray[np.float64]] = []
    for start in range(0, len(rows), _BATCH):
        some = rows[start : start + _BATCH]
        with torch.no_grad():
            found = next_logprobs(model, padded(some, torch.int64)).double().numpy()
        scored += [np.r_[np.nan, found[at, : np.size(row) - 1]] for at, row in enumerate(some)]
    return scored


def sample(
    model: Transformer, prompts: Sequence[list[int]], *, end: int, cap: int, source: torch.Generator
) -> list[Sampled]:
    """A completion for each prompt at temperature 1, up to `end`, with it, or to `cap` tokens."""
    rows = [list(prompt) for prompt in prompts]
    done = [Sampled([], []) for _ in prompts]
    live = list(range(len(rows)))
    for _ in range(cap):
        if not live:
            break
        last = torch.tensor([len(rows[i]) - 1 for i in live])
        with torch.no_grad():
            logits = model(padded([rows[i] for i in live], torch.int64))
            logprobs = functional.log_softmax(logits[torch.arange(len(live)), last], dim=-1)
        drawn = torch.multinomial(logprobs.exp(), 1, generator=source)
        values = logprobs.gather(1, drawn).squeeze(1).tolist()
        for i, token, value in zip(live, drawn.squeeze(1).tolist(), values, strict=True):
            rows[i].append(token)
            done[i].ids.append(token)
            done[i].logprobs.append(value)
        live = [i for i in live if rows[i][-1] != end]
    return done
