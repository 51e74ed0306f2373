"""`wmo-distill datums`: records to training sequences."""

from pathlib import Path
from typing import Annotated, Any

import typer

from wmo_distill.cli.output import Progress, put, put_json
from wmo_distill.cli.scoring import opened

# Fields that are lists, by the option that gives one element.
_OPTIONS = {"drop_stop_reasons": "drop_stop_reason", "tasks": "task"}


def datums(
    source: Annotated[Path, typer.Argument(metavar="OUT", help="A dataset that `build` wrote.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DATUMS", help="Where the datums go.")
    ],
    purpose: Annotated[
        str, typer.Option(metavar="rl|sft", help="sft trains calls without log-probabilities too.")
    ] = "rl",
    context_budget: Annotated[
        int | None,
        typer.Option(metavar="N", help="Leave out what was asked with a longer prompt."),
    ] = None,
    max_datum_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Leave out longer sequences.")
    ] = None,
    budget_rule: Annotated[
        str,
        typer.Option(metavar="prompt|sequence", help="What the budget counts of a call."),
    ] = "prompt",
    drop: Annotated[
        str,
        typer.Option(metavar="fragment|record", help="What goes when a sequence is over a limit."),
    ] = "fragment",
    drop_stop_reasons: Annotated[
        list[str] | None,
        typer.Option("--drop-stop-reason", metavar="WORD", help="Leave out such records."),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="passed|failed|measured", help="Train these records alone."),
    ] = None,
    tasks: Annotated[
        list[str] | None, typer.Option("--task", metavar="TASK", help="Train these tasks alone.")
    ] = None,
    subagents: Annotated[
        bool, typer.Option("--subagents", help="Train the chats of subagents too.")
    ] = False,
    allow_incomplete: Annotated[
        bool,
        typer.Option(
            "--allow-incomplete",
            help="Train episodes of which a call is known to be missing, with --purpose rl.",
        ),
    ] = False,
    reopen: Annotated[
        bool, typer.Option("--reopen", help="Let a rollback extend the state it goes back to.")
    ] = False,
    advantages: Annotated[
        str,
        typer.Option(metavar="none|centered|grpo|rloo", help="Advantages from rewards."),
    ] = "none",
    reward: Annotated[
        str,
        typer.Option(
            metavar="step|trial|return",
            help="Reward of a step: its own, its trial's, or the sum from it to the last step.",
        ),
    ] = "step",
    discount: Annotated[
        float, typer.Option(metavar="X", help="Of later steps' rewards, with --reward return.")
    ] = 1.0,
    min_group: Annotated[
        int, typer.Option(metavar="N", help="Leave out groups with fewer measured members.")
    ] = 0,
    drop_constant: Annotated[
        bool, typer.Option("--drop-constant", help="Leave out groups whose rewards do not differ.")
    ] = False,
    normalize: Annotated[
        str,
        typer.Option(metavar="token|sequence", help="sequence: weight 1 / the episode's tokens."),
    ] = "token",
    routed_experts: Annotated[
        bool,
        typer.Option("--routed-experts", help="Keep where a mixture's tokens were routed to."),
    ] = False,
    scores: Annotated[
        Path | None,
        typer.Option(metavar="CACHE", help="What `score` wrote: advantages from a teacher."),
    ] = None,
    teacher: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose scores, as `score` was told.")
    ] = None,
    beta: Annotated[
        float, typer.Option(metavar="X", help="Of the teacher's part beside the reward's.")
    ] = 1.0,
    clip: Annotated[
        float | None, typer.Option(metavar="X", help="Limit advantages to +-X.")
    ] = None,
    center: Annotated[
        bool, typer.Option("--center", help="Take the mean off the advantages, after the clip.")
    ] = False,
    teacher_discount: Annotated[
        float, typer.Option(metavar="X", help="Of the teacher's part of later tokens.")
    ] = 0.0,
    rescored: Annotated[
        Path | None,
        typer.Option(
            metavar="CACHE",
            help="What `check-logprobs --store` wrote: the student's logprobs, asked again.",
        ),
    ] = None,
    rescored_name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name that --rescored keeps the student's under."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Replace datums that were made with other options.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Turn the records of a dataset into training sequences, each sampled token trained once."""
    from pydantic import ValidationError

    from wmo_distill.datums.options import DatumOptions
    from wmo_distill.datums.render import render_datum_summary
    from wmo_distill.datums.shards import build_datum_shards
    from wmo_distill.errors import UsageError

    given: dict[str, Any] = {
        "purpose": purpose,
        "context_budget": context_budget,
        "max_datum_tokens": max_datum_tokens,
        "budget_rule": budget_rule,
        "drop": drop,
        "drop_stop_reasons": tuple(drop_stop_reasons or ()),
        "only": only,
        "tasks": tuple(tasks or ()),
        "subagents": subagents,
        "allow_incomplete": allow_incomplete,
        "reopen": reopen,
        "advantages": advantages,
        "reward": reward,
        "discount": discount,
        "min_group": min_group,
        "drop_constant": drop_constant,
        "normalize": normalize,
        "routed_experts": routed_experts,
        "teacher": teacher,
        "beta": beta,
        "clip": clip,
        "center": center,
        "teacher_discount": teacher_discount,
        "rescored": rescored_name,
    }
    try:
        options = DatumOptions(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        name = "--" + _OPTIONS.get(name, name).replace("_", "-")
        raise UsageError(
            f"{name}: {first['msg']}, found {first['input']!r}; give another"
        ) from None
    cache = None if scores is None else opened(scores)
    again = None if rescored is None else opened(rescored)
    with Progress("records", quiet=quiet) as progress:
        summary = build_datum_shards(
            source,
            out,
            options,
            scores=cache,
            rescored=again,
            fresh=fresh,
            progress=progress,
        )
    if as_json:
        put_json(summary)
    elif not quiet:
        put(render_datum_summary(out, summary))
    if not summary.stats.datums:
        raise typer.Exit(4)
