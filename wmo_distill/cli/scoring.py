"""What `score` and `check-logprobs` share: a scorer from options."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmo_distill.cli.output import printable, say

if TYPE_CHECKING:
    from wmo_distill.scorers.cache import ScoreCache
    from wmo_distill.scorers.scorer import Scorer

KINDS = ("vllm", "sglang", "echo", "tinker")

Url = Annotated[
    str | None, typer.Option(metavar="URL", help="The server, such as http://localhost:8000.")
]
Model = Annotated[
    str | None, typer.Option(metavar="NAME", help="The model to ask for, or a tinker:// path.")
]
Tokenizer = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The scorer's: another than the sequences' is refused."),
]
Concurrency = Annotated[int, typer.Option(metavar="N", min=1, help="Requests that run at once.")]
Timeout = Annotated[
    float, typer.Option(metavar="S", min=0.001, help="Seconds that one request may take.")
]
ApiKeyEnv = Annotated[
    str | None,
    typer.Option(metavar="VAR", help="The environment variable that holds the server's key."),
]


def opened(cache: Path) -> "ScoreCache":
    """A score cache; each damaged part is reported."""
    from wmo_distill.scorers.cache import ScoreCache

    kept = ScoreCache(cache)
    for fault in kept.faults:
        say(printable(f"{cache / str(fault)}; the part is not used: restore it, or remove it"))
    return kept


def scorer_of(
    kind: str,
    *,
    url: str | None,
    model: str | None,
    tokenizer: str | None,
    api_key_env: str | None,
    timeout: float,
    concurrency: int,
) -> "Scorer":
    """UsageError for an unknown kind, or one that lacks what it needs."""
    from wmo_distill.errors import UsageError
    from wmo_distill.scorers.http import EchoScorer, Endpoint, SglangScorer, VllmScorer
    from wmo_distill.scorers.tinker import tinker_scorer

    if kind not in KINDS:
        raise UsageError(f"--scorer: expected one of {', '.join(KINDS)}, found {kind!r}")
    if kind != "sglang" and model is None:
        raise UsageError(f"--model: expected the name that --scorer {kind} asks for, found none")
    if kind == "tinker":
        saved = model is not None and model.startswith("tinker://")
        return tinker_scorer(
            model_path=model if saved else None,
            base_model=None if saved else model,
            tokenizer=tokenizer,
        )
    if url is None or not url.startswith(("http://", "https://")):
        raise UsageError(
            f"--url: expected the server of --scorer {kind}, such as http://localhost:8000, "
            f"found {url!r}"
        )
    api_key = None
    if api_key_env is not None:
        api_key = os.environ.get(api_key_env)
        if not api_key:
            raise UsageError(
                f"--api-key-env: expected a key in the environment variable {api_key_env}, "
                "found none; set it"
            )
    endpoint = Endpoint(
        url.rstrip("/").removesuffix("/completions").removesuffix("/v1"),
        api_key=api_key,
        timeout=timeout,
        connections=concurrency,
    )
    if kind == "sglang":
        return SglangScorer(endpoint, tokenizer)
    maker = VllmScorer if kind == "vllm" else EchoScorer
    return maker(endpoint, model or "", tokenizer)
