"""Recorded text for a page: what cannot be seen is made visible, and what is long is cut."""

from wmo_distill.visible import visible

_KEPT = "\n\t"


def shown(text: str, most: int) -> str:
    """At most so many characters of it, all of them visible; an ellipsis says that it goes on."""
    return visible(text, _KEPT) if len(text) <= most else f"{visible(text[:most], _KEPT)}…"
