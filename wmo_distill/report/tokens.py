"""An episode's tokens for a terminal, line by line, as they are asked for."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter

from wmo_distill.decoding import Decoder, Kind
from wmo_distill.records import TrialRecord
from wmo_distill.report.episode import LEVELS, Shown, calls_of
from wmo_distill.report.tables import words
from wmo_distill.visible import visible

_Paint = Callable[[str, str], str]
"""Gives a text in a terminal's codes."""
_FED, _SAMPLED = "  | ", "  > "
_WIDTH = 96
_LEVELS = ("", "32", "33", "31", "41;97")
"""How a terminal shows the levels of probability: plain, green, yellow, red, white on red."""
_DIM, _HEAD, _BREAK, _SPECIAL, _JOINED = "2", "1", "1;31", "35", "4"


def token_lines(
    record: TrialRecord, decoder: Decoder | None, *, colour: bool, listed: bool = False
) -> Iterator[str]:
    """Lines without their ends; with `listed` one for each token."""
    paint = _painted if colour else _plain
    yield paint(_title(record), _HEAD)
    yield from _legend(decoder, paint if colour and not listed else None)
    for call in calls_of(record, decoder):
        yield ""
        yield paint(visible(call.name), _HEAD)
        yield f"  {visible(call.facts(record.sampled_with.policy_version))}"
        if call.broken is not None:
            yield f"  {paint(call.broken, _BREAK)}"
        for gutter, pieces in ((_FED, call.fed()), (_SAMPLED, call.sampled())):
            if listed:
                yield from (_line(gutter, piece, paint) for piece in pieces)
            elif decoder is None:
                yield from _ids(gutter, pieces, paint)
            else:
                yield from _text(gutter, pieces, paint)
    if not record.spans:
        yield "  no call is recorded"


def _title(record: TrialRecord) -> str:
    reward = None if record.reward is None else f"reward {record.reward:g}"
    names = (record.trial_name, record.step_name, record.task_id, reward)
    return visible(words(*names, str(record.stop_reason)))


def _legend(decoder: Decoder | None, paint: _Paint | None) -> Iterator[str]:
    yield f"  {_FED.strip()} fed in new   {_SAMPLED.strip()} sampled   " + (
        "the numbers are token ids"
        if decoder is None
        else "⏎ line end   ⟦token⟧ special   ⟦#id⟧ decodes to no character"
    )
    if paint is not None:
        names = [f"p ≥ {low:g}" for low in LEVELS] + ["less"]
        shown = [paint(name, code) for name, code in zip(names, _LEVELS, strict=True)]
        joined = paint("several ids, one character", _JOINED)
        yield f"  {'   '.join([*shown, joined])}"


def _text(gutter: str, pieces: Iterable[Shown], paint: _Paint) -> Iterator[str]:
    """The text in its own lines, each behind the gutter."""
    line: list[tuple[str, str]] = []
    for piece in pieces:
        style = _style(piece, sampled=gutter is _SAMPLED)
        *ended, rest = _words(piece).split("\n")
        for part in ended:
            line.append((style, f"{visible(part, chr(9))}⏎"))
            yield gutter + _runs(line, paint)
            line = []
        if rest:
            line.append((style, visible(rest, "\t")))
    if line:
        yield gutter + _runs(line, paint)


def _runs(line: Iterable[tuple[str, str]], paint: _Paint) -> str:
    """Texts of one style next to each other are painted as one."""
    runs = groupby(line, key=itemgetter(0))
    return "".join(paint("".join(text for _, text in run), style) for style, run in runs)


def _ids(gutter: str, pieces: Iterable[Shown], paint: _Paint) -> Iterator[str]:
    line: list[str] = []
    width = 0
    for piece in pieces:
        text = str(piece.ids[0])
        if width + len(text) > _WIDTH:
            yield gutter + " ".join(line)
            line, width = [], 0
        line.append(paint(text, _style(piece, sampled=gutter is _SAMPLED)))
        width += len(text) + 1
    if line:
        yield gutter + " ".join(line)


def _line(gutter: str, piece: Shown, paint: _Paint) -> str:
    """Place, log-probability, kind where it is not text, text, ids."""
    logprob = "" if piece.logprob is None else f"{piece.logprob:.4f}"
    text = visible(piece.text or "", "\n")
    if piece.kind is not Kind.SECRET:
        text = text.replace(" ", "·").replace("\n", "⏎")
    kind = "" if piece.kind is Kind.TEXT or piece.text is None else piece.kind
    ids = " ".join(map(str, piece.ids))
    head = f"{gutter}{piece.at:>7,}  {logprob:>10}  {ids:<15}  "
    return (head + paint(text, _style(piece, gutter is _SAMPLED)) + f"  {kind}").rstrip()


def _words(piece: Shown) -> str:
    if piece.text is None:
        return f"⟦{' '.join(f'#{token}' for token in piece.ids)}⟧"
    return f"⟦{piece.text}⟧" if piece.kind is Kind.SPECIAL else piece.text


def _style(piece: Shown, sampled: bool) -> str:
    level = piece.level
    codes = [
        _JOINED if len(piece.ids) > 1 else "",
        (_LEVELS[level] if level is not None else _DIM) if sampled else "",
        _SPECIAL if piece.text is None or piece.kind is not Kind.TEXT else "",
    ]
    if not sampled and not codes[2]:
        codes.append(_DIM)
    if sampled and level:
        codes[2] = ""
    return ";".join(filter(None, codes))


def _painted(text: str, codes: str) -> str:
    return f"\x1b[{codes}m{text}\x1b[0m" if codes else text


def _plain(text: str, codes: str) -> str:
    return text
