"""What `score` and `check-logprobs` share: a scorer from options."""

import os
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from wmo_distill.cli.output import say
from wmo_distill.operation import Options, option
from wmo_distill.visible import visible

if TYPE_CHECKING:
    from wmo_distill.scorers.cache import ScoreCache
    from wmo_distill.scorers.scorer import Scorer


class Kind(StrEnum):
    """Who scores."""

    VLLM = "vllm"
    SGLANG = "sglang"
    ECHO = "echo"
    TINKER = "tinker"


def opened(cache: Path) -> "ScoreCache":
    """A score cache; each damaged part is reported."""
    from wmo_distill.scorers.cache import ScoreCache

    kept = ScoreCache(cache)
    for fault in kept.faults:
        say(visible(f"{cache / str(fault)}; the part is not used: restore it, or remove it"))
    return kept


class Server(Options):
    """A scorer of a command."""

    scorer: Kind | None = option(
        None, "What serves the model; echo: a /v1/completions that echoes the prompt."
    )
    url: str | None = option(None, "URL of the server, such as http://localhost:8000.", "URL")
    model: str | None = option(None, "Name of the model to ask for, or a tinker:// path.", "NAME")
    tokenizer: str | None = option(
        None, "The scorer's tokenizer; sequences of another one are refused.", "NAME"
    )
    timeout: float = option(600.0, "Number of seconds that one request may take.", "S", ge=0.001)
    api_key_env: str | None = option(
        None, "Environment variable that holds the server's key.", "VAR"
    )


def scorer_of(server: Server) -> "Scorer":
    """UsageError for a scorer that lacks what it needs."""
    from wmo_distill.errors import UsageError
    from wmo_distill.scorers.http import EchoScorer, Endpoint, SglangScorer, VllmScorer
    from wmo_distill.scorers.tinker import tinker_scorer

    kind, url, model, tokenizer = server.scorer, server.url, server.model, server.tokenizer
    if kind != "sglang" and model is None:
        raise UsageError(f"--model: expected the name that --scorer {kind} asks for, found none")
    if kind == "tinker":
        saved = model is not None and model.startswith("tinker://")
        return tinker_scorer(
            model_path=model if saved else None,
            base_model=None if saved else model,
            tokenizer=tokenizer,
        )
    if url is None:
        raise UsageError(
            f"--url: expected the server of --scorer {kind}, such as http://localhost:8000, "
            "found none"
        )
    endpoint = Endpoint(
        url.rstrip("/").removesuffix("/completions").removesuffix("/v1"),
        api_key=None if server.api_key_env is None else _api_key(server.api_key_env),
        timeout=server.timeout,
    )
    if kind == "sglang":
        return SglangScorer(endpoint, tokenizer)
    maker = VllmScorer if kind == "vllm" else EchoScorer
    return maker(endpoint, model or "", tokenizer)


def _api_key(variable: str) -> str:
    """The key; UsageError that shows no key, neither its value nor one given as a name."""
    from wmo_distill.errors import UsageError
    from wmo_distill.scorers.http import is_key

    key = os.environ.get(variable)
    if key is not None and is_key(key):
        return key
    named = key is not None or re.fullmatch("[A-Z_][A-Z0-9_]*", variable)
    raise UsageError(
        "--api-key-env: expected a key of visible ASCII characters in the environment variable "
        f"{variable if named else 'of that name'}, found {'others' if key else 'none'}; set it"
    )
