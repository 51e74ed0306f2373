"""The account of a build, for people: every sum shows what it is the sum of."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from wmo_distill.cli.output import columns, printable, size
from wmo_distill.issues import Issue

if TYPE_CHECKING:
    from wmo_distill.pipeline import Summary


def render_summary(summary: "Summary", out: Path, *, dry_run: bool = False) -> str:
    """Aligned lines, then the issues with their meanings."""
    s = summary
    skipped, dropped = sum(s.skipped.values()), sum(s.calls_dropped.values())
    rows = [
        ("trials", f"{s.found:,} found = {s.written:,} written + {skipped:,} skipped"),
        ("", _reasons(s.skipped)),
        ("removed", f"{s.removed:,}" if s.removed else ""),
        ("episodes", f"{s.records:,}"),
        ("calls", f"{s.calls_found:,} found = {s.calls:,} kept + {dropped:,} dropped"),
        ("", _reasons(s.calls_dropped)),
        (
            "tokens",
            f"{s.tokens.total:,} = {s.tokens.input:,} fed in + {s.tokens.output:,} sampled; "
            f"{s.tokens.subagent:,} more of subagents",
        ),
        ("endings", _reasons(s.stop_reasons)),
        ("bytes", f"{size(s.bytes_in)} of trials, {size(s.bytes_out)} of shards"),
        ("parts", f"{s.parts:,}"),
        ("seconds", f"{s.seconds:.1f}"),
    ]
    title = f"{out}, as it would be" if dry_run else str(out)
    blocks = [title + "\n" + columns([row for row in rows if row[1]])]
    if s.issues:
        blocks.append("Issues\n" + columns(_issue_rows(s.issues)))
    return "\n\n".join(blocks) + "\n"


def _reasons(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{printable(name)} {n:,}" for name, n in ordered)


def _issue_rows(issues: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """Code, count, meaning; the most frequent first."""
    meanings = {issue.value: issue.meaning for issue in Issue}
    ordered = sorted(issues.items(), key=lambda item: (-item[1], item[0]))
    return [(code, f"{n:,}", meanings.get(code, "")) for code, n in ordered]
