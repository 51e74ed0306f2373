"""The account of a build, for people: every sum shows what it is the sum of."""

from collections.abc import Iterator
from pathlib import Path

from wmo_distill.issues import meaning_of
from wmo_distill.pipeline.summary import Regraded, Summary
from wmo_distill.report.tables import Row, counts, page, ranked, section, size, words


def render_summary(summary: Summary, out: Path) -> str:
    """The sums, then the issues with their meanings; what a dry run would do."""
    if summary.dry_run:
        return page(section(f"{out}: a dry run, nothing was written", _forecast(summary)))
    issues = [(code, n, meaning_of(code)) for code, n in ranked(summary.issues)]
    return page(section(str(out), _sums(summary)), section("Issues", issues))


def render_regraded(s: Regraded, out: Path) -> str:
    """What changed, and what the dataset holds now."""
    trials, names, episodes, *_ = _sums(s)
    grades = f"{s.changed:,} of {s.records:,} changed; passed {s.passed_before:,}, now {s.passed:,}"
    gone = f"{s.removed:,} cells of directories that were not there" if s.removed else ""
    shards = f"{size(s.bytes_out)} from {size(s.bytes_in)}, {s.seconds:.1f} s"
    more = [("removed", gone), ("grades", grades), ("shards", shards)]
    return page(section(str(out), [trials, names, episodes, *more]))


def _sums(s: Summary) -> list[Row]:
    skipped, dropped = sum(s.skipped.values()), sum(s.calls_dropped.values())
    return [
        ("trials", f"{s.found:,} found = {s.written:,} written + {skipped:,} skipped"),
        ("", counts(s.skipped)),
        ("episodes", f"{s.records:,}"),
        ("calls", f"{s.calls_found:,} found = {s.calls:,} kept + {dropped:,} dropped"),
        ("", counts(s.calls_dropped)),
        (
            "tokens",
            f"{s.tokens.total:,} = {s.tokens.input:,} fed in + {s.tokens.output:,} sampled; "
            f"{s.tokens.subagent:,} more in other chats",
        ),
        ("endings", counts(s.stop_reasons)),
        (
            "shards",
            f"{size(s.bytes_out)} from {size(s.bytes_in)} of trials, "
            f"{s.parts:,} part{'' if s.parts == 1 else 's'}",
        ),
        ("this run", words(*_this_run(s))),
    ]


def _forecast(s: Summary) -> list[Row]:
    """Only reading tells what would be in the rows."""
    skipped = sum(s.skipped.values())
    return [
        ("trials", f"{s.found:,} found = {s.written:,} to be written + {skipped:,} skipped"),
        ("", counts(s.skipped)),
        ("to read", f"{s.read:,} trials, {size(s.bytes_read)}"),
        ("to remove", f"{s.removed:,} trials that are gone" if s.removed else ""),
    ]


def _this_run(s: Summary) -> Iterator[str]:
    yield f"{s.read:,} trials read, {size(s.bytes_read)}"
    for n, what in (
        (s.removed, "gone and removed"),
        (s.kept_removed, "gone and kept"),
        (s.unread, "trials or directories not readable"),
        (s.unused_sinks, "sink files of no trial"),
        (s.slow_reads, "documents by the plain reader"),
    ):
        if n:
            yield f"{n:,} {what}"
    yield f"{s.seconds:.1f} s"
