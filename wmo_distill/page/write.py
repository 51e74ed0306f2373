"""The report of a dataset or of datums, or of two of them, as one HTML file."""

from pathlib import Path

from pydantic import BaseModel

from wmo_distill.errors import UsageError, extra_missing
from wmo_distill.files import open_file, path_text, whole_file

_MARK = b'<meta name="generator" content="wmo-distill report">'
_MARK_WITHIN = 512


class Written(BaseModel):
    """What `report` wrote."""

    file: str
    bytes: int


def write_report(
    source: Path,
    out: Path,
    *,
    other: Path | None = None,
    max_tokens: int | None = None,
    by: tuple[str, ...] = (),
    where: str | None = None,
) -> Written:
    """Write the page whole; UsageError before any work where it cannot be drawn or written.

    With `other` the two are next to each other.
    """
    check_installed()
    check_place(out, _MARK)
    from wmo_distill.page.made import report_page

    page = report_page(source, other, max_tokens=max_tokens, by=by, where=where)
    data = page.encode("utf-8", "backslashreplace")
    with whole_file(out) as temporary:
        temporary.write_bytes(data)
    return Written(file=path_text(out), bytes=len(data))


def check_installed() -> None:
    """UsageError without the extra `report`."""
    try:
        import altair  # noqa: F401
        import jinja2  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise extra_missing("report", "report", error) from None


def check_place(out: Path, mark: bytes, flag: str = "--out") -> None:
    """UsageError where a page cannot be put, or would replace what is none with that mark."""
    if not out.parent.is_dir():
        raise UsageError(
            f"{flag}: expected a file in a directory that is there, found {path_text(out)}; "
            "make the directory, or name another"
        )
    try:
        with open_file(out) as file:
            found = file.read(_MARK_WITHIN)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(
            f"{flag}: expected a page of this command or no file, found {path_text(out)}: "
            f"{error.strerror or error}; name another file"
        ) from None
    if found and mark not in found:
        raise UsageError(
            f"{flag}: expected a page of this command or no file, found {path_text(out)}, which is "
            "something else; name another file, or remove it"
        )
