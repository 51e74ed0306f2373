"""What `score` and `check-logprobs` share: a scorer from options."""

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from wmo_distill.cli.output import printable, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


def scorer_of(
    kind: str,
    *,
    url: str | None,
    model: str | None,
    tokenizer: str | None,
    api_key_env: str | None,
    timeout: float,
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
    if url is None:
        raise UsageError(
            f"--url: expected the server of --scorer {kind}, such as http://localhost:8000, "
            "found none"
        )
    endpoint = Endpoint(
        url.rstrip("/").removesuffix("/completions").removesuffix("/v1"),
        api_key=None if api_key_env is None else _api_key(api_key_env),
        timeout=timeout,
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


@contextmanager
def stop_says(kept: "Callable[[], str]") -> "Iterator[None]":
    """Where Ctrl-C or SIGTERM ends the work, a line on stderr says what is kept."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        say(printable(f"wmo-distill: stopped; {kept()}"))
        raise
