"""The page of one episode: its tokens in one file without scripts, part by part."""

from collections.abc import Iterable, Iterator
from html import escape

from wmo_distill.decoding import Decoder, Kind
from wmo_distill.page.styles import style
from wmo_distill.records import TrialRecord
from wmo_distill.report.episode import LEVELS, Call, Shown, calls_of
from wmo_distill.report.record import facts
from wmo_distill.visible import visible

MARK = '<meta name="generator" content="wmo-distill show">'
_HEAD = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{MARK}
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
"""


def episode_page(
    episodes: Iterable[tuple[TrialRecord, Decoder | None, str | None]],
) -> Iterator[str]:
    """The parts of the page: each record, its decoder, and why a tokenizer was not used."""
    yield _HEAD
    yield f"<style>\n{style('episode')}</style>\n"
    for number, (record, decoder, doubted) in enumerate(episodes):
        title = _safe(record.trial_name)
        if number == 0:
            yield f"<title>{title}</title>\n</head>\n<body>\n<main>\n"
        yield f"<h1>{title}</h1>\n"
        if doubted is not None:
            yield f'<p class="warning">Token ids, not text: {_safe(doubted)}</p>\n'
        yield "<dl>\n"
        for name, value in facts(record):
            if value:
                yield f"<dt>{_safe(str(name))}</dt><dd>{_safe(str(value))}</dd>\n"
        yield f"</dl>\n{_KEY}"
        for call in calls_of(record, decoder):
            yield from _section(call, record, number)
    yield "</main>\n</body>\n</html>\n"


def _section(call: Call, record: TrialRecord, number: int) -> Iterator[str]:
    name = f"e{number}-s{call.chat.number}-c{call.at}"
    yield f'<section aria-labelledby="{name}">\n<h2 id="{name}">{_safe(call.name)}</h2>\n'
    yield f'<p class="about">{_safe(call.facts(record.sampled_with.policy_version))}</p>\n'
    if call.broken is not None:
        yield f'<p class="warning">{_safe(call.broken)}</p>\n'
    for kind, words, pieces in (
        ("fed", "fed in new", call.fed()),
        ("sampled", "sampled", call.sampled()),
    ):
        yield f'<pre class="{kind}" role="group" aria-label="{words}">'
        yield from (_token(piece) for piece in pieces)
        yield "</pre>\n"
    yield "</section>\n"


def _token(piece: Shown) -> str:
    """Its text, with what is known of it where a mouse rests; plain text fed in is left as it is.

    The element says what it is: `b` special, secret or no text, `u` several ids of one character,
    else `i`.
    """
    if piece.text is None:
        text = f"{piece.ids[0]} " if len(piece.ids) == 1 else f"{piece.ids} "
    else:
        text = escape(visible(piece.text, "\n\t")).replace("\n", "⏎\n")
    plain = piece.kind in (Kind.TEXT, Kind.UNKNOWN)
    element = "i" if plain and len(piece.ids) == 1 else "u" if plain else "b"
    if element == "i" and piece.logprob is None:
        return text
    hint = "ids " + " ".join(map(str, piece.ids)) if len(piece.ids) > 1 else f"id {piece.ids[0]}"
    if piece.logprob is not None:
        hint += f", log-probability {piece.logprob:.4f}"
    level = f' class="p{piece.level}"' if piece.level else ""
    return f'<{element}{level} title="{hint}">{text}</{element}>'


def _safe(text: str) -> str:
    return escape(visible(text))


_KEY = (
    '<p class="key">Sampled tokens by probability: '
    + " ".join(
        f'<i class="p{level}">{name}</i>'
        for level, name in enumerate([*(f"≥ {low:g}" for low in LEVELS), "less"])
    )
    + ". <b>Special tokens</b> have a frame; <u>several ids of one character</u> are underlined. "
    "⏎ is the end of a line in a token. The ids are where the mouse rests.</p>\n"
)
