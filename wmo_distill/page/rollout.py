"""The page of a dataset: its sections in order, and the sentence above them."""

from markupsafe import Markup

from wmo_distill.issues import meaning_of
from wmo_distill.page.blocks import Cell, Section, Sides, Table, colored, columns, word
from wmo_distill.page.numbers import Numbers, Path, bold, quiet
from wmo_distill.page.outcomes import (
    Stages,
    endings,
    funnel,
    parts,
    rate_cells,
    rate_table,
    rates,
    reasons,
    tasks,
)  # fmt: skip
from wmo_distill.page.spreads import breaks, context, distribution, distributions
from wmo_distill.visible import shortened

_SPREADS = {
    "sampled_tokens": ("Sampled tokens", "episodes"),
    "total_tokens": ("Tokens in all", "episodes"),
    "turns": ("Turns", "episodes"),
    "logprob": ("Log-probability of a token", "tokens"),
    "episode_logprob": ("Mean log-probability", "episodes"),
    "agent_seconds": ("Seconds of the agent", "episodes"),
    "reward": ("Reward", "measured episodes"),
}
_STAGES: Stages = {
    "trials found": ("found.trials", "found.trials"),
    "trials written": ("found.written", "found.trials"),
    "records": ("funnel.records", "funnel.records"),
    "with calls": ("funnel.with_spans", "funnel.records"),
    "with sampled tokens": ("funnel.with_tokens", "funnel.records"),
    "with logprobs": ("funnel.with_logprobs", "funnel.records"),
    "and measured": ("funnel.measured_with_logprobs", "funnel.records"),
}
_CALLS: Stages = {
    "calls kept": ("found.calls_kept", "found.calls_found"),
    "sampled tokens with logprobs": (
        "funnel.sampled_tokens_with_logprobs",
        "funnel.sampled_tokens",
    ),
}
RATES: dict[str, Path] = {
    "solved, of measured": "solve_rate",
    "solved, of all": "raw_solve_rate",
    "mean of test scores": "graded_solve_rate",
    "never run or graded": "infra_failed_rate",
    "scaffold loss": "scaffold_loss_rate",
    "reference scaffold loss": "reference_scaffold_loss_rate",
    "calls at the output cap": "calls_at_cap",
    "records with such a call": "records_at_cap",
}
_OF_TASK = {"records": "records", "measured": "measured"}
_SLICES = {
    "versions": "policy version",
    "models": "model",
    "agents": "agent",
    "formats": "format",
    "by": "--by",
}
_OF_SLICE = {
    "records": "records",
    "measured": "measured",
    "sampled_tokens": "sampled tokens",
    "median_sampled": "median of an episode",
}
_TOTALS: dict[str, Path] = {
    "calls": "tokens.calls",
    "fragments": "tokens.fragments",
    "tokens fed in": "tokens.input",
    "tokens sampled": "tokens.output",
    "tokens of main chats": "tokens.total",
    "tokens of all prompts": "tokens.prompt",
    "tokens of other chats": "tokens.subagent",
    "expansion by breaks": "tokens.expansion",
    "entropy a token, nats": "health.entropy_per_token",
}
_MOST_SLICES = 20
_MOST_REASONS = 8


def summary(side: Numbers) -> Markup:
    """The sentence that comes first."""
    found = Markup("{} records").format(side.number("records"))
    if side.find("found"):
        found = Markup("Of {} trials found, {} were written, as {}").format(
            side.number("found.trials"), side.number("found.written"), found
        )
    if side.find("where") is not None:
        found = Markup("{} chosen by {} ({} left out)").format(
            found, side.text("where"), side.number("left_out")
        )
    return Markup(
        "{}; {} are measured, and {} were solved: a solve rate of {} (95 % interval {}). "
        "{} records hold what training needs."
    ).format(
        found, side.number("measured"), side.share("solve_rate"),
        bold(side.rate("solve_rate")), side.interval("solve_rate"),
        side.of("funnel.measured_with_logprobs", "funnel.records"),
    )  # fmt: skip


def sections(sides: Sides) -> list[Section]:
    """All that statistics of rollouts say, for one dataset or for two next to each other."""
    by_task = [tasks(*pair, _OF_TASK) for pair in colored(sides)] if len(sides) == 1 else []
    return [
        _funnel(sides),
        _rates(sides),
        *by_task,
        endings(sides),
        distributions(sides, _SPREADS),
        context(sides),
        breaks(sides, "tokens.calls", "calls of main chats"),
        policy(sides),
        issues(sides),
        worst(sides),
    ]


def _funnel(sides: Sides) -> Section:
    about = "A trial that was found has one row in the ledger; a record is one episode."
    tables = [
        parts("Calls and tokens", "what", _CALLS, sides),
        *reasons(sides, "Trials that were skipped", "found.skipped", "trials"),
        *reasons(sides, "Calls that were dropped", "found.dropped", "calls"),
        *reasons(sides, "Records without calls, by the first reason", "spanless", "records"),
    ]
    return Section(
        "funnel", "From found to trained", about, [funnel(sides, _STAGES, _left)], tables
    )


def _left(side: Numbers) -> Markup:
    return Markup("{} records are measured and hold log-probabilities").format(
        side.of("funnel.measured_with_logprobs", "funnel.records")
    )


def _rates(sides: Sides) -> Section:
    figure = rates(sides, RATES, lambda s: Markup("Over {} records").format(s.number("records")))
    rows: list[tuple[Cell, Path]] = [
        (Markup("pass@{}").format(side.number(f"pass_at_k.{at}.k")), f"pass_at_k.{at}.rate")
        for side in sides[:1]
        for at in range(len(side.at("pass_at_k")))
    ]
    tables = [rate_table("pass@k, the mean over groups with k measured", "what", rows, sides)]
    about = (
        "A rate counts measured records, graded and valid, where its name does not say all. "
        "Scaffold loss: of the episodes that ran to a known end, those that did not submit."
    )
    return Section("rates", "Rates", about, [figure], tables if rows else [])


def policy(sides: Sides) -> Section:
    """Which policy sampled, and how old it was; agents, models and formats as well."""
    known = all(side.find("staleness") for side in sides)
    title = "Staleness: training steps behind the newest"
    figures = distribution(sides, "staleness", title, "episodes") if known else []
    tables = [_slices(side) for side in sides]
    rows: list[tuple[Cell, Path]] = [
        (name, path) for name, path in _TOTALS.items() if any(s.find(path) for s in sides)
    ]
    tables.append(columns("Sums over the records", "what", rows, sides, of="sum"))
    about = "By policy version, model, agent and format; a step is known where it was recorded."
    return Section("policy", "Policy versions and staleness", about, figures, tables)


def _slices(side: Numbers) -> Table:
    """A row for each policy version, model, agent and format."""
    rows: list[list[Cell]] = []
    more: list[Markup] = []
    for path, name in _SLICES.items():
        count = len(side.find(path) or ())
        if path == "by" and count:
            name = shortened(", ".join(side.at("by.0.values")))
        for one in (f"{path}.{at}" for at in range(min(count, _MOST_SLICES))):
            known = side.at(f"{one}.value") is not None
            value = side.text(f"{one}.value") if known else "not recorded"
            numbers = (side.number(f"{one}.{of}") for of in _OF_SLICE)
            named = Markup("{} {}").format(quiet(name), value)
            rows.append([named, *rate_cells(side, f"{one}.solve_rate"), *numbers])
        if count > _MOST_SLICES:
            number = side.number(f"{path}.length")
            more.append(Markup("; the first {} of {}: {}").format(_MOST_SLICES, number, name))
    title = f"{side.label}: records by" if side.label else "Records by"
    caption = Markup("{} policy version, model, agent and format{}").format(
        title, Markup("").join(more)
    )
    head = ["value", "solve rate", "of", "95 % interval", *_OF_SLICE.values()]
    return Table(caption, head, rows)


def issues(sides: Sides) -> Section:
    """The issue codes, with what they mean."""
    codes: dict[str, int] = {}
    for side in sides:
        for code, n in side.at("issues").items():
            codes.setdefault(code, n)
    rows: list[list[Cell]] = [
        [
            word(code),
            *(side.number(f"issues.{code}") if code in side.at("issues") else "" for side in sides),
            meaning_of(code),
        ]
        for code in sorted(codes, key=lambda code: (-codes[code], code))
    ]
    heads = [side.label or "times" for side in sides]
    table = Table("Issues", ["code", *heads, "meaning"], rows, (0, len(heads) + 1))
    about = "What was found in the trials, once for each occurrence; a note is no fault."
    return Section("issues", "Issues", about, (), [table] if rows else [])


def worst(sides: Sides) -> Section:
    """The trials that are most wrong."""
    tables = []
    for side in sides:
        rows: list[list[Cell]] = [
            [
                side.text(f"worst.{at}.trial_name"),
                side.text(f"worst.{at}.task_id"),
                _reasons(side, at),
                side.text(f"worst.{at}.artifact_dir"),
            ]
            for at in range(len(side.find("worst") or ()))
        ]
        caption = f"{side.label}: the worst trials" if side.label else "The worst trials"
        if rows:
            head = ["trial", "task", "reasons, with how often", "directory"]
            tables.append(Table(caption, head, rows, (0, 1, 2, 3)))
    about = (
        "Dropped calls first, then damaged data, implausible values, breaks and lost endings. "
        "wmo-distill show prints one of them."
    )
    return Section("worst", "The worst trials", about, (), tables)


def _reasons(side: Numbers, at: int) -> Markup:
    path = f"worst.{at}.reasons"
    every = list(side.at(path))
    found = [
        Markup("{} {}").format(word(reason), side.number(f"{path}.{reason}"))
        for reason in every[:_MOST_REASONS]
    ]
    if len(every) > _MOST_REASONS:
        found.append(Markup("{} reasons in all").format(side.number(f"{path}.length")))
    return Markup(", ").join(found)
