"""The account of a build, for people: every sum shows what it is the sum of."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from wmo_distill.cli.output import columns, printable, size
from wmo_distill.issues import Issue

if TYPE_CHECKING:
    from wmo_distill.pipeline.summary import Summary


def render_summary(summary: "Summary", out: Path) -> str:
    """Aligned lines, then the issues with their meanings."""
    s = summary
    if s.dry_run:
        return _render_forecast(s, out)
    skipped, dropped = sum(s.skipped.values()), sum(s.calls_dropped.values())
    rows = [
        ("trials", f"{s.found:,} found = {s.written:,} written + {skipped:,} skipped"),
        ("", _reasons(s.skipped)),
        ("episodes", f"{s.records:,}"),
        ("calls", f"{s.calls_found:,} found = {s.calls:,} kept + {dropped:,} dropped"),
        ("", _reasons(s.calls_dropped)),
        (
            "tokens",
            f"{s.tokens.total:,} = {s.tokens.input:,} fed in + {s.tokens.output:,} sampled; "
            f"{s.tokens.subagent:,} more of subagents",
        ),
        ("endings", _reasons(s.stop_reasons)),
        ("shards", f"{size(s.bytes_out)} from {size(s.bytes_in)} of trials, {_parts(s.parts)}"),
        ("this run", ", ".join(_this_run(s))),
    ]
    blocks = [printable(str(out)) + "\n" + columns([row for row in rows if row[1]])]
    if s.issues:
        blocks.append("Issues\n" + columns(_issue_rows(s.issues)))
    return "\n\n".join(blocks) + "\n"


def _render_forecast(s: "Summary", out: Path) -> str:
    """What a build would do; only reading tells what would be in the rows."""
    skipped = sum(s.skipped.values())
    rows = [
        ("trials", f"{s.found:,} found = {s.written:,} to be written + {skipped:,} skipped"),
        ("", _reasons(s.skipped)),
        ("to read", f"{s.read:,} trials, {size(s.bytes_read)}"),
        ("to remove", f"{s.removed:,} trials that are gone" if s.removed else ""),
    ]
    title = printable(f"{out}: a dry run, nothing was written")
    return title + "\n" + columns([row for row in rows if row[1]]) + "\n"


def _parts(n: int) -> str:
    return f"{n:,} part" if n == 1 else f"{n:,} parts"


def _this_run(s: "Summary") -> Iterator[str]:
    yield f"{s.read:,} trials read, {size(s.bytes_read)}"
    if s.removed:
        yield f"{s.removed:,} gone and removed"
    if s.kept_removed:
        yield f"{s.kept_removed:,} gone and kept"
    if s.unused_sinks:
        yield f"{s.unused_sinks:,} sink files of no trial"
    if s.slow_reads:
        yield f"{s.slow_reads:,} documents by the plain reader"
    yield f"{s.seconds:.1f} s"


def _reasons(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{printable(name)} {n:,}" for name, n in ordered)


def _issue_rows(issues: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """Code, count, meaning; the most frequent first."""
    meanings = {issue.value: issue.meaning for issue in Issue}
    ordered = sorted(issues.items(), key=lambda item: (-item[1], item[0]))
    return [(code, f"{n:,}", meanings.get(code, "")) for code, n in ordered]
