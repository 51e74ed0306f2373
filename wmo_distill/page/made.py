"""A page from what is at a path, or at two."""

from pathlib import Path

from markupsafe import Markup

from wmo_distill.datums.manifest import DATUMS
from wmo_distill.outputs.manifest import AnyManifest, kind_of, tool_version
from wmo_distill.page import rollout, sequences
from wmo_distill.page.blocks import Section
from wmo_distill.page.compared import differences, paired_tasks
from wmo_distill.page.document import document
from wmo_distill.page.numbers import Numbers
from wmo_distill.page.provenance import provenance
from wmo_distill.shards.manifest import DATASET
from wmo_distill.stats.compare import Comparison, compare, stats_of
from wmo_distill.stats.datums import SequenceStats
from wmo_distill.stats.rollout import RolloutStats
from wmo_distill.visible import shortened


def report_page(
    source: Path,
    other: Path | None,
    *,
    max_tokens: int | None,
    by: tuple[str, ...],
    where: str | None,
) -> str:
    """The page of a dataset or of datums; with `other` of both."""
    stats = stats_of(source, max_tokens=max_tokens, by=by, where=where)
    if other is None:
        return page_of(_name(source), stats, _manifest(source))
    second = stats_of(other, max_tokens=max_tokens, by=by, where=where)
    names, manifests = (_name(source), _name(other)), (_manifest(source), _manifest(other))
    return page_of_both(names, compare(stats, second), manifests)


def page_of(name: str, stats: RolloutStats | SequenceStats, manifest: AnyManifest) -> str:
    """The page of one."""
    side = Numbers(stats)
    of = sequences if isinstance(stats, SequenceStats) else rollout
    sections = [*of.sections([side]), provenance([("", manifest)])]
    return document(f"Report of {name}", of.summary(side), sections, _note())


def page_of_both(
    names: tuple[str, str], comparison: Comparison, manifests: tuple[AnyManifest, AnyManifest]
) -> str:
    """The page of two next to each other."""
    both = Numbers(comparison)
    sides = [both.below("a", "A"), both.below("b", "B")]
    of = sequences if comparison.kind == "datums" else rollout
    sections: list[Section] = [
        differences(both, of.RATES),
        paired_tasks(both),
        *of.sections(sides),
        provenance(list(zip("AB", manifests, strict=True))),
    ]
    lines = [
        Markup("<strong>{}: {}.</strong> {}").format(side.label, name, of.summary(side))
        for side, name in zip(sides, names, strict=True)
    ]
    title = f"Report of {names[0]} and {names[1]}"
    return document(title, Markup("<br>").join(lines), sections, _note())


def _name(path: Path) -> str:
    return shortened(path.absolute().name or str(path))


def _manifest(path: Path) -> AnyManifest:
    return DATUMS.read(path) if kind_of(path) == DATUMS.mark[1] else DATASET.read(path)


def _note() -> Markup:
    return Markup(
        "Made by wmo-distill {}. Every number is that of <code>wmo-distill stats --json</code>, "
        "under the path that its data-key names."
    ).format(tool_version())
