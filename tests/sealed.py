"""Manifests that say something else than they did, with a seal that is right again."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from wmo_distill.files import file_sha256
from wmo_distill.outputs.manifest import MANIFEST, SEAL, seal_of
from wmo_distill.outputs.stored import footer_sha256


def read(out: Path) -> dict[str, Any]:
    """The values of a manifest without their seal."""
    value: dict[str, Any] = json.loads((out / MANIFEST).read_text())
    value.pop(SEAL)
    return value


def write(out: Path, value: dict[str, Any]) -> None:
    (out / MANIFEST).write_text(json.dumps({**value, SEAL: seal_of(value)}))


def take_over(out: Path) -> None:
    """Make the manifest state the bytes of the parts, and of a ledger, as they are."""
    value = read(out)
    for part in value["parts"]:
        part["sha256"], part["bytes"] = file_sha256(out / part["file"])
        with suppress(ValueError):  # no Parquet
            part["footer"] = footer_sha256(out / part["file"])
    if "ledger" in value:
        ledger = value["ledger"]
        ledger["sha256"], ledger["bytes"] = file_sha256(out / "ledger.parquet")
    write(out, value)
