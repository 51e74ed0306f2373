"""Where the numbers come from: versions and options, as the manifest records them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from wmo_distill.credentials import CUT, json_without_credentials
from wmo_distill.outputs.manifest import AnyManifest
from wmo_distill.page.blocks import Section, Table, word
from wmo_distill.visible import shortened

_LONGEST = 400
_FACTS = (
    "tool", "kind", "tool_version", "schema_version", "dataset_hash", "source", "inputs",
    "slow_reads", "regrades", "options",
)  # fmt: skip


def provenance(manifests: Sequence[tuple[str, AnyManifest]]) -> Section:
    """A table for each manifest."""
    tables = []
    for label, manifest in manifests:
        rows = [
            [word(path), Markup('<code data-manifest="{}">{}</code>').format(path, value)]
            for path, value in facts(manifest)
        ]
        caption = f"{label}: versions and options" if label else "Versions and options"
        tables.append(Table(caption, ["what", "value"], rows, (0, 1)))
    about = "As the manifest records them; credentials are cut out."
    return Section("provenance", "Options and versions", about, (), tables)


def facts(manifest: AnyManifest) -> Iterator[tuple[str, str]]:
    """(path in the manifest, value as JSON) of what says how the rows were made."""
    text = json.dumps({name: _plain(manifest).get(name) for name in _FACTS})
    value = json.loads(json_without_credentials(text) or json.dumps({"options": CUT}))
    for name in _FACTS:
        if value.get(name) is None:
            continue
        if isinstance(value[name], Mapping):
            yield from ((f"{name}.{key}", _written(one)) for key, one in value[name].items())
        else:
            yield name, _written(value[name])


def _plain(manifest: AnyManifest) -> dict[str, Any]:
    return manifest.model_dump(mode="json")


def _written(value: Any) -> str:
    """Text as it is, all else as JSON; long ones shortened."""
    return shortened(value if isinstance(value, str) else json.dumps(value), _LONGEST)
