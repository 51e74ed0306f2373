"""Items of the PyTorch dataset to a batch: padded on the right, with an attention mask."""

from collections.abc import Mapping, Sequence
from typing import Any

from wmo_distill.exporters.items import NO_ROUTE, PER_TOKEN

IGNORED = -100
"""A label that PyTorch's and Hugging Face's cross-entropy leave out."""


def collate(
    items: Sequence[Mapping[str, Any]], *, pad_token_id: int = 0, pad_to_multiple_of: int = 1
) -> dict[str, Any]:
    """One batch of the items of a `DatumDataset`; for `DataLoader(..., collate_fn=collate)`.

    Per-token tensors become [items, longest], padded with `pad_token_id`, with False in masks, -1
    in routed experts and 0 elsewhere. Values of a sequence become [items], of packed items lists
    of tensors. Adds `attention_mask` int64, 1 at tokens, and `labels` int64, the token where it is
    trained and else -100, unshifted, as Hugging Face's models take them.
    """
    import torch

    sizes = torch.tensor([item["token_ids"].numel() for item in items])
    longest = int(sizes.max())
    longest += -longest % pad_to_multiple_of
    fillers = {"token_ids": pad_token_id, "routed_experts": NO_ROUTE}
    batch: dict[str, Any] = {}
    for name, first in items[0].items():
        values = [item[name] for item in items]
        if name in (*PER_TOKEN, "routed_experts"):
            whole = first.new_full((len(items), longest, *first.shape[1:]), fillers.get(name, 0))
            for line, value in zip(whole, values, strict=True):
                line[: value.shape[0]] = value
            batch[name] = whole
        elif isinstance(first, torch.Tensor) and not first.ndim:
            batch[name] = torch.stack(values)
        else:
            batch[name] = values
    present = torch.arange(longest) < sizes[:, None]
    batch["attention_mask"] = present.to(torch.int64)
    batch["labels"] = torch.where(batch["loss_mask"], batch["token_ids"], IGNORED)
    return batch
