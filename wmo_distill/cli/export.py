"""`wmo-distill export`: training sequences in a trainer's form."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmo_distill.cli.output import Printing, Progress, columns, printable, put, say
from wmo_distill.exporters.options import ExportOptions

if TYPE_CHECKING:
    from wmo_distill.exporters.messages import MessageSummary
    from wmo_distill.exporters.run import ExportSummary


def export(
    datums: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATUMS",
            help="What `datums` wrote; for messages and sharegpt what `build` wrote.",
            show_default=False,
        ),
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Directory to write."),
    ] = None,
    to: Annotated[
        str, typer.Option("--to", metavar="TARGET", help="Trainer to write for, as in --list.")
    ] = "",
    list_targets: Annotated[bool, typer.Option("--list", help="Print the targets.")] = False,
    options: ExportOptions,
    printing: Printing,
) -> None:
    """Write training sequences in the form that a trainer reads, counting what it cannot take."""
    from wmo_distill.errors import UsageError
    from wmo_distill.exporters.messages import FORMS, export_messages
    from wmo_distill.exporters.registry import TARGETS
    from wmo_distill.exporters.run import export_datums

    if list_targets:
        abouts = {name: target.about for name, target in TARGETS.items()}
        abouts |= {name: f"{about}, of a dataset" for name, (about, _, _) in FORMS.items()}
        put(columns(list(abouts.items()), indent=""))
        return
    for given, name in ((datums, "DATUMS"), (out, "--out"), (to or None, "--to")):
        if given is None:
            raise UsageError(
                f"{name}: expected one, found none; say "
                "`wmo-distill export DATUMS -o DIR --to TARGET`, --list names the targets"
            )
    assert datums is not None
    assert out is not None
    if options.only is not None and to not in FORMS:
        raise UsageError(
            f"--only: expected --to {' or '.join(FORMS)}, found --to {to}; sequences are chosen by "
            "`wmo-distill datums --only`"
        )
    summary: ExportSummary | MessageSummary
    with Progress("rows", quiet=printing.quiet) as progress:
        run = export_messages if to in FORMS else export_datums
        summary = run(datums, out, to, options, progress=progress)
    printing.put(summary, lambda: f"{printable(str(out))}: {to}\n{columns(_rows(summary))}")
    if summary.refused.get("logprob_mode_unknown"):  # type: ignore[call-overload]
        say(
            "logprob_mode is unknown: --assume takes it as it is; to have it in the rows, "
            "`build --declare logprob_mode=raw --fresh`, and then `datums` again"
        )
    _say_groups(summary)
    if not summary.exported:
        raise typer.Exit(4)


def _say_groups(summary: "ExportSummary | MessageSummary") -> None:
    """What the trainer would compare wrongly: groups, and episodes of several rows."""
    groups = getattr(summary, "groups", None)
    if groups is None:
        return
    name = summary.target
    if groups.usual_rows is not None and groups.split_episodes:
        say(
            f"{name} counts each row of a group: {groups.split_episodes:,} of "
            f"{groups.episodes:,} episodes are several rows and count several times"
        )
    if not groups.odd:
        return
    by_prompt = groups.odd[0].reason == "prompt"
    first = ", ".join(
        f"{printable(one.group)} ({one.rows} rows, {one.episodes} episodes"
        + (f", {one.prompts} prompts)" if by_prompt else ")")
        for one in groups.odd[:3]
    )
    more = ", ..." if groups.odd_groups > 3 else ""
    if by_prompt:
        how = f"{name} compares rows of one prompt; groups with different prompts"
    else:
        how = (
            f"{name} compares runs of a fixed number of rows, {groups.usual_rows} in most groups; "
            "groups with another number"
        )
    say(
        f"{how}: {groups.odd_groups:,} of {groups.groups:,}: {first}{more}; leave them out, or "
        "take `datums --advantages` and a target that carries advantages"
    )


def _rows(summary: "ExportSummary | MessageSummary") -> list[tuple[str, str]]:
    told = summary.model_dump()
    names = ("records", "datums", "exported", "rows", "replies", "unweighted", "parsed",
             "with_images", "tokens")  # fmt: skip
    rows = [(name.replace("_", " "), f"{told[name]:,}") for name in names if name in told]
    if "loss_tokens" in told:
        rows.append(("trained tokens", f"{told['loss_tokens']:,}"))
    rows += [(f"rows with {flag}", f"{n:,}") for flag, n in told.get("flags", {}).items()]
    rows += [(f"refused, {reason}", f"{n:,}") for reason, n in summary.refused.items()]
    if told.get("not_carried"):
        rows.append(("not carried", ", ".join(told["not_carried"])))
    if told.get("reward"):
        rows.append(("reward", told["reward"]))
    if groups := told.get("groups"):
        rows.append(("episodes", f"{groups['episodes']:,}"))
        if groups["split_episodes"]:
            rows.append(("of several sequences", f"{groups['split_episodes']:,}"))
    if told.get("lost_first_tokens"):
        rows.append(("not trained, first token", f"{told['lost_first_tokens']:,}"))
    return rows
