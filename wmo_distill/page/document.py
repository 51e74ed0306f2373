"""The page around the sections: one file that needs nothing else."""

from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from wmo_distill.page.blocks import Section


def document(title: str, summary: Markup, sections: Sequence[Section], note: Markup) -> str:
    """The page as text; what is not markup already is escaped."""
    environment = Environment(
        loader=PackageLoader("wmo_distill", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = Markup((files("wmo_distill.page") / "style.css").read_text())
    page = environment.get_template("page.html")
    return page.render(
        title=title, summary=summary, sections=sections, note=note, style=style
    ).lstrip()
