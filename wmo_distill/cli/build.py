"""`wmo-distill build`: trials to shards."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmo_distill.cli.flags import Paths
from wmo_distill.cli.output import Writing, end, say, say_errors
from wmo_distill.operation import Options, option
from wmo_distill.options import BuildOptions
from wmo_distill.report.tables import counts
from wmo_distill.visible import visible

if TYPE_CHECKING:
    from wmo_distill.pipeline.summary import Summary

DONE_WITH_ISSUES = 3
DONE_WITHOUT_TOKENS = 4
DECIDED = ("duplicate_id", "no_cell", "removed")
"""Reasons for skipping a trial that are decisions; by any other one something was not read."""


class BuildEnd(Options):
    """When a finished build does not exit with 0."""

    strict: bool = option(
        False,
        "Exit with 3 if any trial has an issue other than a note, such as time_without_zone, or "
        "could not be read.",
    )
    allow_empty: bool = option(False, "Exit with 0 even without any sampled token.")


def build(
    paths: Paths,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="OUT", help="Dataset to write or update.")
    ],
    options: BuildOptions,
    ending: BuildEnd,
    printing: Writing,
) -> None:
    """Turn trials into Parquet shards; a second run reads only what is new or changed."""
    from wmo_distill.pipeline.build import build as run
    from wmo_distill.report.build import render_summary

    dry_run, quiet = options.dry_run, printing.quiet
    graded = options.cells is None and not options.fresh and _has_cells(out)
    with printing.writing(None if dry_run else out) as progress:
        summary = run(paths, out, options, progress=progress)
    printing.put(summary, lambda: render_summary(summary, out))
    if graded and not dry_run:
        say(
            f"wmo-distill: {out}: the grades of the cells given before are replaced by the "
            "verifier's; give --cells again to have them back"
        )
    if summary.removed:
        verb = "would lose" if dry_run else "lost"
        say(
            f"wmo-distill: {out}: {summary.removed:,} trials are gone from their directories and "
            f"{verb} their rows; --keep-removed keeps them"
        )
    if not quiet and summary.unused_sinks:
        named = summary.unused_sink_files
        more = summary.unused_sinks - len(named)
        files = ", ".join(named) + (f" and {more:,} more" if more else "")
        say(
            f"wmo-distill: --sinks: expected files named after the trials found, found "
            f"{visible(files)}, which were not read; check their names, or the PATHs"
        )
    say_errors(summary.errors)
    if summary.unread:
        say(
            f"wmo-distill: {out}: what could not be read keeps the rows that it has, and is read "
            "in the next build; check permissions and the file system, and run the command again"
        )
    code = exit_code(summary, strict=ending.strict, allow_empty=ending.allow_empty)
    if code == DONE_WITHOUT_TOKENS:
        given = " ".join(map(str, paths))
        found = f"none in {summary.found:,} trials" if summary.found else f"no trial in {given}"
        end(
            code,
            f"{out}: expected sampled tokens, found {found}; `wmo-distill doctor {given}` says "
            "what is missing, --allow-empty takes it as it is",
        )
    if code:
        why = counts(strict_faults(summary))
        end(code, f"{out}: --strict: expected no issues but notes, found {why}; the rows are there")


def _has_cells(out: Path) -> bool:
    """Whether the rows in `out` hold a caller's grades."""
    from wmo_distill.errors import DistillError
    from wmo_distill.shards.manifest import read_manifest

    try:
        return bool(read_manifest(out).options.get("cells"))
    except DistillError:
        return False


def exit_code(summary: "Summary", *, strict: bool, allow_empty: bool) -> int:
    """The exit code of a build that came to its end."""
    if summary.dry_run:
        return 0
    if not summary.tokens.output and not allow_empty:
        return DONE_WITHOUT_TOKENS
    return DONE_WITH_ISSUES if strict and strict_faults(summary) else 0


def strict_faults(summary: "Summary") -> dict[str, int]:
    """What `--strict` does not pass over: issues, trials skipped, and what could not be read."""
    from wmo_distill.issues import is_note

    faults = {code: n for code, n in summary.issues.items() if not is_note(code)}
    faults |= {reason: n for reason, n in summary.skipped.items() if n and reason not in DECIDED}
    return faults | ({"not readable": summary.unread} if summary.unread else {})
