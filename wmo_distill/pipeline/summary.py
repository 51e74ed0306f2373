"""What a build says of itself: the account of the whole dataset, and of this run."""

from pydantic import BaseModel, ConfigDict, Field

from wmo_distill.shards.manifest import Tokens

UNUSED_NAMED = 20


class Summary(BaseModel):
    """`found` to `bytes_out` describe the dataset as it is now, the rest of this run."""

    model_config = ConfigDict(frozen=True)

    found: int = 0
    written: int = 0
    skipped: dict[str, int] = Field(default_factory=dict)
    removed: int = 0
    """Trials that are gone, and their rows with them; this run's."""
    records: int = 0
    calls: int = 0
    calls_found: int = 0
    calls_dropped: dict[str, int] = Field(default_factory=dict)
    tokens: Tokens = Tokens()
    issues: dict[str, int] = Field(default_factory=dict)
    stop_reasons: dict[str, int] = Field(default_factory=dict)
    parts: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0
    read: int = 0
    """Trials that were read: new, changed, or for another reason; not those that are too large."""
    bytes_read: int = 0
    kept_removed: int = 0
    """Trials that are gone and kept their rows."""
    slow_reads: int = 0
    """Documents that the fast reader left to the plain one."""
    unused_sinks: int = 0
    """Sink files of no found trial."""
    unread: int = 0
    """Trials, and directories, that could not be read: they keep their rows, to be read again."""
    unused_sink_files: list[str] = Field(default_factory=list)
    """The first of them, relative to the directory of sinks."""
    unlisted: list[str] = Field(default_factory=list)
    """Directories that were not seen whole, relative to the parent."""
    errors: dict[str, str] = Field(default_factory=dict)
    """What went wrong with each trial that could not be read, and in `unlisted`, by path."""
    dry_run: bool = False


class Regraded(Summary):
    """What a regrade says of itself; `bytes_in` are those of the dataset that was graded anew."""

    changed: int = 0
    """Rows with another reward or another `passed`."""
    passed: int = 0
    passed_before: int = 0
    """Of the rows that stayed."""
