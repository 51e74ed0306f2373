"""What the pages look like."""

from importlib.resources import files


def style(name: str) -> str:
    """The rules that all pages have, then those of one."""
    folder = files("wmo_distill.page")
    return "".join((folder / f"{one}.css").read_text("utf-8") for one in ("base", name))
