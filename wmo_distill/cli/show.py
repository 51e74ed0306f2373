"""`wmo-distill show`: one episode, as a summary or token by token."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmo_distill.cli.flags import Dataset
from wmo_distill.cli.output import Json, put, put_json, say
from wmo_distill.operation import Options, option
from wmo_distill.visible import visible

if TYPE_CHECKING:
    from wmo_distill.decoding import Decoder
    from wmo_distill.records import TrialRecord

    Checked = Iterator[tuple[TrialRecord, Decoder | None, str | None]]

Episode = Annotated[
    str | None,
    typer.Argument(
        metavar="EPISODE",
        help="Any unique part of its id, trial, task or directory; without it, row 0.",
    ),
]


class TextOptions(Options):
    """How tokens become text, here and in `view`."""

    tokenizer: str | None = option(
        None,
        "Show text: a tokenizer.json, a folder with one, a tiktoken file or encoding on this "
        "machine.",
        "FILE",
    )
    trust_tokenizer: bool = option(
        False, "Show text also where the tokenizer seems to be another one."
    )
    show_secrets: bool = option(
        False, "Show the text of what --on-secret of build found, too.", flag="--show-secrets"
    )

    def decoder(self) -> "Decoder | None":
        if self.tokenizer is None:
            return None
        from wmo_distill.decoding import load

        return load(self.tokenizer)


class ShowOptions(TextOptions):
    row: int | None = option(None, "Number of a row, from 0, in place of a name.", "N", ge=0)
    tokens: bool = option(False, "Print the tokens: as text with --tokenizer, else their ids.")
    each: bool = option(
        False, "Print each token on a line: place, log-probability, ids, text.", flag="--each"
    )
    html: Path | None = option(None, "Write the episode's tokens as a page.", "FILE")


def show(out: Dataset, episode: Episode = None, *, options: ShowOptions, printing: Json) -> None:
    """Show an episode: identity, grade, ending, calls and issues, or its tokens."""
    from wmo_distill.errors import UsageError
    from wmo_distill.report.record import render_record
    from wmo_distill.shards.encode import row_json
    from wmo_distill.shards.find import at_row, read_at, trial_of

    if episode is not None and options.row is not None:
        raise UsageError("show: expected EPISODE or --row, found both; give one of them")
    if options.html is not None and options.each:
        raise UsageError("show: expected --html or --each, found both; the page shows every token")
    decoder = options.decoder()
    places = [at_row(out, options.row or 0)] if episode is None else trial_of(out, episode)
    records = [read_at(place) for place in places]
    if printing.as_json:
        put_json([row_json(record) for record in records])
    elif options.html is not None:
        _write_page(options.html, _checked(out, records, decoder, options))
    elif options.tokens or options.each or decoder is not None:
        _put_tokens(_checked(out, records, decoder, options), each=options.each)
    else:
        put("\n".join(render_record(record) for record in records))


def _checked(
    out: Path, records: "list[TrialRecord]", decoder: "Decoder | None", options: ShowOptions
) -> "Checked":
    """Each record with the decoder, or with why that cannot be the one of its ids.

    The text of the secrets that it names is not shown.
    """
    if options.show_secrets:
        records = [replace(record, secrets=()) for record in records]
    if decoder is None or options.trust_tokenizer:
        yield from ((record, decoder, None) for record in records)
        return
    from wmo_distill.decoding.recorded import doubt_of
    from wmo_distill.shards.manifest import read_manifest

    parent = Path(read_manifest(out).parent)
    for record in records:
        why = doubt_of(decoder, record, parent)
        if why is not None:
            say(
                f"wmo-distill: --tokenizer: expected that of {visible(record.trial_name)}, found "
                f"another: {visible(why)}; ids are shown, give the model's own "
                "or --trust-tokenizer"
            )
        yield record, decoder if why is None else None, why


def _put_tokens(episodes: "Checked", *, each: bool) -> None:
    from wmo_distill.cli.pager import in_colour, put_lines
    from wmo_distill.report.tokens import token_lines

    colour = in_colour()
    put_lines(
        line
        for record, decoder, _ in episodes
        for line in token_lines(record, decoder, colour=colour, listed=each)
    )


def _write_page(path: Path, episodes: "Checked") -> None:
    from wmo_distill.errors import UsageError
    from wmo_distill.files import whole_file
    from wmo_distill.page.episode import MARK, episode_page
    from wmo_distill.page.write import check_place
    from wmo_distill.report.tables import size

    check_place(path, MARK.encode(), "--html")
    try:
        with whole_file(path) as temporary, temporary.open("w", encoding="utf-8") as file:
            file.writelines(episode_page(episodes))
        put(f"{visible(str(path))}: {size(path.stat().st_size)}")
    except OSError as error:
        raise UsageError(
            f"--html: expected a file that can be written, found {path}: {error.strerror}; "
            "give another path"
        ) from None
