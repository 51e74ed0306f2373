"""Statistics of training sequences, and of two datasets, for people."""

from operator import attrgetter

from wmo_distill.datums.datum import BreakCause
from wmo_distill.report.datums import FIXES
from wmo_distill.report.numbers import (
    MOST,
    below,
    cut,
    distributions,
    named,
    number,
    rate_cells,
    solved,
)
from wmo_distill.report.tables import Row, page, section
from wmo_distill.report.words import PARTS, RECORDS, SEQUENCES, word_of
from wmo_distill.stats.compare import Comparison, Difference
from wmo_distill.stats.datums import SequenceStats
from wmo_distill.stats.rollout import RolloutStats
from wmo_distill.visible import visible

_RATES = ("solve_rate", "groups.zero_variance", "truncation")


def render_datum_stats(stats: SequenceStats, *, most: int = MOST) -> str:
    """A sentence, and tables, one below the other; at most `most` tasks are listed."""
    left_out: list[Row] = [(reason, n) for reason, n in stats.left_out.items()]
    return page(
        f"{stats.sequences:,} sequences of {stats.episodes:,} episodes, {stats.trained_tokens:,} "
        f"trained tokens next to {stats.context_tokens:,} of context, for {stats.purpose}; "
        f"{solved(stats.solve_rate)}",
        f"{stats.left_out_sequences:,} sequences are left out by --where"
        if stats.left_out_sequences
        else "",
        section(f"{SEQUENCES['left_out']}, of {stats.records:,}", left_out),
        section(SEQUENCES["left_out_tokens"], stats.left_out_tokens.items()),
        distributions(
            {
                **below("distributions", stats.distributions),
                "staleness": stats.staleness,
                "groups.size": stats.groups.size,
                "groups.measured": stats.groups.measured,
            },
            SEQUENCES,
        ),
        section(
            "Rates, 95 % intervals",
            [(SEQUENCES[path], *rate_cells(attrgetter(path)(stats))) for path in _RATES],
        ),
        section(
            SEQUENCES["breaks"],
            [(cause, n, FIXES[BreakCause(cause)]) for cause, n in stats.breaks.items()],
        ),
        section(
            SEQUENCES["tasks"],
            cut(
                [
                    (
                        named(task.task_id, task.step_name),
                        task.episodes,
                        task.sequences,
                        task.trained_tokens,
                        *rate_cells(task.solve_rate),
                    )
                    for task in stats.tasks
                ],
                most,
            ),
            head=("task", "episodes", "sequences", "trained", "solve rate", "", "interval"),
        ),
    )


def render_comparison(both: Comparison, names: tuple[str, str], *, most: int = MOST) -> str:
    """What B has more than A, with intervals; the tasks that differ most come first."""
    a, b = map(visible, names)
    paired = both.paired
    tasks = sorted(both.tasks, key=lambda task: -abs(task.difference or 0.0))
    rows: list[Row] = [
        (
            named(task.task_id, task.step_name, of=task.origin),
            *rate_cells(task.a)[:2],
            *rate_cells(task.b)[:2],
            _signed(task.difference),
            _interval(task.low, task.high),
        )
        for task in tasks
    ]
    return page(
        f"A is {a}, {_size(both.a)}; B is {b}, {_size(both.b)}; differences are B - A, with 95 % "
        "intervals",
        section(
            "Rates and medians",
            [
                _row(name_of(both, one.key), one)
                for one in both.differences
                if one.a is not None or one.b is not None
            ],
            head=("", "A", "B", "B - A", "interval"),
        ),
        section(
            "The same tasks in both, each of one weight",
            [
                ("tasks with a solve rate in both", paired.tasks),
                ("of these, format or source differs", paired.other_origins or None),
                ("better in B", paired.better),
                ("worse in B", paired.worse),
                (
                    "mean difference",
                    _signed(paired.mean_difference),
                    _interval(paired.low, paired.high),
                ),
                ("only in A", both.only_a),
                ("only in B", both.only_b),
            ],
        ),
        section("Tasks", cut(rows, most), head=("task", "A", "", "B", "", "B - A", "interval")),
    )


def _size(one: RolloutStats | SequenceStats) -> str:
    if isinstance(one, RolloutStats):
        return f"{one.records:,} episodes"
    return f"{one.sequences:,} sequences"


def name_of(both: Comparison, key: str) -> str:
    """In words: of a rate (`solve_rate.value`), pass@k (`pass_at_k.2.rate.value`) or a median."""
    path, _, last = key.rpartition(".")
    if isinstance(both.a, RolloutStats) and path.startswith("pass_at_k."):
        return f"pass@{both.a.pass_at_k[int(path.split('.')[1])].k}"
    word = word_of(RECORDS if isinstance(both.a, RolloutStats) else SEQUENCES, path)
    return word if last == "value" else f"{word}, {PARTS[last]}"


def _row(name: str, one: Difference) -> Row:
    is_rate = one.key.endswith(".value")
    a, b = (f"{x:.3f}" if is_rate and x is not None else number(x) for x in (one.a, one.b))
    return name, a, b, _signed(one.difference), _interval(one.low, one.high)


def _signed(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:+,.0f}" if abs(value) >= 1000 else f"{value:+.3f}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{low:+.3f}, {high:+.3f}]"
