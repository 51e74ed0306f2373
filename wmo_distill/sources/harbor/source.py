"""Trials of Harbor's, one a directory, with the tokens of its own files or of sinks."""

from collections.abc import Sequence
from pathlib import Path

from wmo_distill.files import FilesState
from wmo_distill.options import BuildOptions
from wmo_distill.sources.base import Folder, FoundTrial, Here
from wmo_distill.sources.evidence import Evidence
from wmo_distill.sources.harbor.discovery import Discovery
from wmo_distill.sources.harbor.reading import read_evidence
from wmo_distill.sources.harbor.state import trial_state


class Harbor:
    """The source `harbor`; one instance serves one search."""

    kind = "harbor"

    def __init__(self) -> None:
        self._discovery = Discovery()

    def find(self, folder: Folder) -> Here:
        """The directory itself as a trial."""
        return self._discovery.find(folder)

    def named(self, root: Path, path: str) -> FoundTrial:
        """The directory as a trial because somebody names it so, whatever it holds."""
        return self._discovery.trial(root, path)

    def state(self, found: FoundTrial, sinks: Path | None) -> FilesState:
        """Of the files in the trial's directory and of its sinks, not of its job's."""
        return trial_state(found, sinks)

    def read(self, found: FoundTrial, options: BuildOptions) -> Sequence[Evidence]:
        """One episode, or one for each recorded step."""
        return read_evidence(found, options)
