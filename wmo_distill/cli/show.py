"""`wmo-distill show`: one record, readable."""

from itertools import islice
from typing import TYPE_CHECKING

from wmo_distill.cli.flags import Dataset
from wmo_distill.cli.output import Json, put, put_json
from wmo_distill.operation import Options, option

if TYPE_CHECKING:
    from wmo_distill.records import TrialRecord


class ShowOptions(Options):
    trial: str | None = option(
        None, "Name or id of a trial, id of an episode, or directory of a trial.", "NAME"
    )
    row: int | None = option(None, "Number of a row, from 0.", "N", ge=0)


def show(out: Dataset, options: ShowOptions, printing: Json) -> None:
    """Show a record: identity, grade, ending, calls and issues. Without an option, row 0."""
    from wmo_distill.errors import UsageError
    from wmo_distill.report.record import render_record
    from wmo_distill.shards.encode import row_json
    from wmo_distill.shards.scan import iter_records

    trial, row = options.trial, options.row
    if trial is not None and row is not None:
        raise UsageError("show: expected --trial or --row, found both; give one of them")
    records = iter_records(out, superseded=True)
    if trial is None:
        chosen = list(islice(records, row or 0, (row or 0) + 1))
        wanted, option = f"row {row or 0}", "--row"
    else:
        chosen = [record for record in records if trial in _names(record)]
        wanted, option = f"a trial {trial!r}", "--trial"
    if not chosen:
        raise UsageError(
            f"{out}: expected {wanted}, found no such row; check {option}: "
            f"`wmo-distill stats {out}` counts the rows, ledger.parquet lists the trials"
        )
    if printing.as_json:
        put_json([row_json(record) for record in chosen])
        return
    put("\n".join(render_record(record) for record in chosen))


def _names(record: "TrialRecord") -> tuple[str | None, ...]:
    return (record.trial_name, record.trial_id, record.episode_id, record.artifact_dir)
