"""The page around the sections: one file that needs nothing else."""

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from wmo_distill.page.blocks import Section
from wmo_distill.page.styles import style


def document(title: str, summary: Markup, sections: Sequence[Section], note: Markup) -> str:
    """The page as text; what is not markup already is escaped."""
    environment = Environment(
        loader=PackageLoader("wmo_distill", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("page.html")
    return page.render(
        title=title, summary=summary, sections=sections, note=note, style=Markup(style("report"))
    ).lstrip()
