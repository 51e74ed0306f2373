"""What was exported and what was refused, for people."""

from collections.abc import Iterator
from pathlib import Path

from wmo_distill.exporters.messages import MessageSummary
from wmo_distill.exporters.run import ExportSummary
from wmo_distill.report.tables import Row, page, section

_COUNTS = ("records", "datums", "exported", "rows", "replies", "unweighted", "parsed",
           "with_images", "tokens")  # fmt: skip


def render_export(out: Path, summary: ExportSummary | MessageSummary) -> str:
    """The counts of sequences, or of chats."""
    numbers = summary.model_dump()
    rows: list[Row] = [(n.replace("_", " "), numbers[n]) for n in _COUNTS if n in numbers]
    if isinstance(summary, ExportSummary):
        rows.append(("trained tokens", summary.loss_tokens))
    else:
        rows += [(f"rows with {flag}", n) for flag, n in summary.flags.items()]
    rows += [(f"refused, {reason}", n) for reason, n in summary.refused.items()]
    if isinstance(summary, ExportSummary):
        rows += [
            ("not carried", None, ", ".join(summary.not_carried)),
            ("reward", None, summary.reward),
            ("episodes", summary.groups.episodes),
            ("of several sequences", summary.groups.split_episodes or None),
            ("not trained, first token", summary.lost_first_tokens or None),
        ]
    return page(section(f"{out}: {summary.target}", rows))


def wrong_groups(summary: ExportSummary | MessageSummary) -> Iterator[str]:
    """What the trainer would compare wrongly: groups, and episodes of several rows."""
    if isinstance(summary, MessageSummary):
        return
    name, groups = summary.target, summary.groups
    if groups.usual_rows is not None and groups.split_episodes:
        yield (
            f"{name} counts each row of a group: {groups.split_episodes:,} of "
            f"{groups.episodes:,} episodes are several rows and count several times"
        )
    if not groups.odd:
        return
    by_prompt = groups.odd[0].reason == "prompt"
    first = ", ".join(
        f"{one.group} ({one.rows} rows, {one.episodes} episodes"
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
    yield (
        f"{how}: {groups.odd_groups:,} of {groups.groups:,}: {first}{more}; leave them out, or "
        "take `datums --advantages` and a target that carries advantages"
    )
