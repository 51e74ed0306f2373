"""`wmo-distill build`: trials to shards."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmo_distill.cli.output import Progress, printable, put, put_json, say

if TYPE_CHECKING:
    from wmo_distill.options import BuildOptions
    from wmo_distill.pipeline.summary import Summary

DONE_WITH_ISSUES = 3
DONE_WITHOUT_TOKENS = 4
NOT_READ = ("read_failed", "worker_died", "calls_unbalanced")
"""Reasons for skipping a trial that are faults, not decisions."""


def build(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH", help="A trial directory, a job directory, or a root that holds jobs."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="OUT", help="The dataset: made, or brought up to date."
        ),
    ],
    max_turns: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The cap on turns, in place of the recorded one."),
    ] = None,
    cells: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Your grades: a JSON list, a score report, JSONL or Parquet."
        ),
    ] = None,
    sinks: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Token sinks: DIR/TRIAL.jsonl, or DIR/TRIAL/STEP.jsonl."),
    ] = None,
    reward_key: Annotated[
        str, typer.Option(metavar="KEY", help="Which of the verifier's rewards is the reward.")
    ] = "reward",
    reward_range: Annotated[
        tuple[float, float],
        typer.Option(metavar="LO HI", help="A reward outside is null, with an issue."),
    ] = (0.0, 1.0),
    reward_files: Annotated[
        bool,
        typer.Option("--reward-files", help="Let a reward file stand in where a result has none."),
    ] = False,
    pass_at: Annotated[
        float | None,
        typer.Option(metavar="X", help="Passed means reward >= X, not reward == 1.0."),
    ] = None,
    declare: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="How it was sampled, where nothing recorded it: temperature, top_p, top_k, "
            "logprob_mode, policy_version, train_step, tokenizer. May be repeated.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Processes; all usable cores where not given."),
    ] = None,
    no_salvage: Annotated[
        bool,
        typer.Option("--no-salvage", help="Any fault in a trial's tokens costs all its tokens."),
    ] = False,
    no_extra: Annotated[
        bool, typer.Option("--no-extra", help="Leave out what providers sent beside the tokens.")
    ] = False,
    keep_removed: Annotated[
        bool, typer.Option("--keep-removed", help="Keep the rows of trials that are gone.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Build all of OUT anew, with other options if you like.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what would be read; write nothing.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Exit with 3 if any trial has an issue other than a note, such as"
            " time_without_zone.",
        ),
    ] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Exit with 0 even without any sampled token.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print no summary and no progress.")
    ] = False,
) -> None:
    """Turn trials into Parquet shards; a second run reads only what is new or changed."""
    from wmo_distill.cli.summary import render_summary
    from wmo_distill.pipeline.build import build as run

    options = build_options(
        max_turns=max_turns,
        reward_key=reward_key,
        reward_range=reward_range,
        reward_files=reward_files,
        pass_at=pass_at,
        declare=declare or [],
        salvage=not no_salvage,
        extra=not no_extra,
        sinks=sinks,
    )
    graded = cells is None and not fresh and _has_cells(out)
    with Progress("trials", quiet=quiet) as progress:
        summary = run(
            paths,
            out,
            options,
            cells=cells,
            workers=workers,
            keep_removed=keep_removed,
            fresh=fresh,
            dry_run=dry_run,
            progress=progress,
        )
    if as_json:
        put_json(summary)
    elif not quiet:
        put(render_summary(summary, out))
    if graded and not dry_run:
        say(
            f"wmo-distill: {out}: the grades of the cells given before are replaced by the "
            "verifier's; give --cells again to have them back"
        )
    if summary.removed:
        told = "would lose" if dry_run else "lost"
        say(
            f"wmo-distill: {out}: {summary.removed:,} trials are gone from their directories and "
            f"{told} their rows; --keep-removed keeps them"
        )
    if not quiet:
        for directory in summary.unlisted:
            say(
                f"wmo-distill: {printable(directory)}: cannot be looked into, and was not read; "
                "check its permissions and those of its result.json"
            )
        for path, error in summary.errors.items():
            say(f"wmo-distill: {printable(path)}: {printable(error)}")
    code = exit_code(summary, strict=strict, allow_empty=allow_empty)
    if code:
        raise typer.Exit(code)


def _has_cells(out: Path) -> bool:
    """Whether the rows in `out` hold a caller's grades."""
    from wmo_distill.errors import DistillError
    from wmo_distill.shards.manifest import read_manifest

    try:
        return bool(read_manifest(out).options.get("cells"))
    except DistillError:
        return False


def build_options(*, declare: list[str], **values: object) -> "BuildOptions":
    """The options that alter rows; UsageError for a value that is none."""
    from pydantic import ValidationError

    from wmo_distill.declare import parse_declare
    from wmo_distill.errors import UsageError
    from wmo_distill.options import BuildOptions

    try:
        return BuildOptions.model_validate({**values, "declare": parse_declare(declare)})
    except ValidationError as error:
        first = error.errors()[0]
        name = "--" + str(first["loc"][0]).replace("_", "-")
        found = "" if "found" in first["msg"] else f", found {first['input']}"
        raise UsageError(
            f"{name}: {first['msg'].removeprefix('Value error, ')}{found}; give another"
        ) from None


def exit_code(summary: "Summary", *, strict: bool, allow_empty: bool) -> int:
    """What the shell is told of a build that came to its end; notes describe sound trials."""
    from wmo_distill.issues import Issue

    if summary.dry_run:
        return 0
    if not summary.tokens.output and not allow_empty:
        return DONE_WITHOUT_TOKENS
    lost = any(summary.skipped.get(reason) for reason in NOT_READ)
    damaged = set(summary.issues) - {issue.value for issue in Issue if issue.note}
    return DONE_WITH_ISSUES if strict and (damaged or summary.unlisted or lost) else 0
