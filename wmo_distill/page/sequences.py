"""The page of training sequences: its sections in order, and the sentence above them."""

from markupsafe import Markup

from wmo_distill.page.blocks import Section, Sides, colored
from wmo_distill.page.numbers import Numbers, Path, bold
from wmo_distill.page.outcomes import Stages, funnel, parts, rates, reasons, tasks
from wmo_distill.page.spreads import breaks, distribution, distributions

_SPREADS = {
    "sequence_tokens": ("Tokens of a sequence", "sequences"),
    "trained_tokens": ("Trained tokens of a sequence", "sequences"),
    "logprob": ("Log-probability of a token", "trained tokens"),
    "advantages": ("Advantages", "trained tokens"),
    "ratio": ("Ratio: re-scored to recorded", "trained tokens"),
    "weight": ("Weight of a sequence", "sequences"),
    "reward": ("Reward", "measured episodes"),
}
_STAGES: Stages = {
    "records": ("records", "records"),
    "episodes trained": ("episodes", "records"),
}
_TOKENS: Stages = {
    "trained tokens": ("trained_tokens", "tokens"),
    "context tokens": ("context_tokens", "tokens"),
}
RATES: dict[str, Path] = {
    "solved, of measured": "solve_rate",
    "calls cut at the cap": "truncation",
    "groups without contrast": "groups.zero_variance",
}
_OF_TASK = {
    "episodes": "episodes",
    "sequences": "sequences",
    "trained_tokens": "trained tokens",
}


def summary(side: Numbers) -> Markup:
    """The sentence that comes first."""
    text = Markup(
        "{} records gave {} sequences of {} episodes, with {} tokens of which {} are trained; "
        "{} measured episodes were solved: a solve rate of {} (95 % interval {})."
    ).format(
        side.number("records"), side.number("sequences"), side.number("episodes"),
        side.number("tokens"), bold(side.number("trained_tokens")), side.share("solve_rate"),
        side.rate("solve_rate"), side.interval("solve_rate"),
    )  # fmt: skip
    if side.at("where") is None:
        return text
    return Markup("{} Chosen by {}, {} sequences left out.").format(
        text, side.text("where"), side.number("left_out_sequences")
    )


def sections(sides: Sides) -> list[Section]:
    """All that statistics of sequences say, for one set of them or for two."""
    by_task = [tasks(*pair, _OF_TASK) for pair in colored(sides)] if len(sides) == 1 else []
    return [
        _funnel(sides),
        _rates(sides),
        *by_task,
        distributions(sides, _SPREADS),
        breaks(sides, "sequences", "sequences"),
        _staleness(sides),
    ]


def _funnel(sides: Sides) -> Section:
    figure = funnel(
        sides, _STAGES, lambda s: Markup("{} records are trained").format(s.of(*_STAGES[_LAST]))
    )
    tables = [
        parts("Tokens of the sequences", "what", _TOKENS, sides),
        *reasons(sides, "Records that were left out", "left_out", "records"),
        *reasons(sides, "Sampled tokens that are not trained", "left_out_tokens", "tokens"),
    ]
    about = "A record gives one sequence, and one more at each break of its chat."
    return Section("funnel", "From records to sequences", about, [figure], tables)


_LAST = "episodes trained"


def _rates(sides: Sides) -> Section:
    figure = rates(
        sides, RATES, lambda s: Markup("Over {} groups").format(s.number("groups.groups"))
    )
    sizes = [
        figure
        for name, title in (("size", "Episodes of a group"), ("measured", "Measured of a group"))
        for figure in distribution(sides, f"groups.{name}", title, "groups")
    ]
    about = "A group without contrast has one reward for all: advantages from rewards are zero."
    return Section("rates", "Rates and groups", about, [figure, *sizes])


def _staleness(sides: Sides) -> Section:
    known = all(side.at("staleness") for side in sides)
    title = "Training steps behind the newest"
    figures = distribution(sides, "staleness", title, "sequences") if known else []
    about = "Between a sequence's oldest step and the newest of all."
    return Section("staleness", "Staleness", about if known else "No step is recorded.", figures)
