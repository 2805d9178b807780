"""Read access to the tables of an output folder, video by video."""

import json
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.errors import ConfigError, file_errors
from headrace.extraction.extraction_options import encodable
from headrace.extraction.features.feature_result import ChunkResult, Samples, VideoName
from headrace.extraction.features.feature_table import PATTERN, Listed, TableFacts, TableFile
from headrace.extraction.features.table_store import PartFiles
from headrace.extraction.journal import Journal, Lost
from headrace.extras import check_extra

_SESSION = "session.json"


@dataclass(frozen=True, kw_only=True)
class FolderRecord:
    """Record of the extraction beside its tables."""

    asked: dict[str, str] = field(default_factory=dict)
    """Name of each requested video → its path, in order. Empty: unknown."""
    failed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of a video → why it was not opened, and why chunks failed that no table holds."""
    is_ended: bool | None = None
    """Whether the last run completed and all its tables exist. None: unknown, for example if only
    the tables were copied."""


def read_record(folder: Path) -> FolderRecord:
    """Return the record of a folder; empty if unreadable."""
    journal = Journal(folder)
    try:
        videos = journal.request().videos
    except (OSError, ValueError):
        return FolderRecord()
    failed: dict[str, tuple[str, ...]] = {}
    for chunk, letter in journal.quarantine().read().items():
        with suppress(ValueError, IndexError):
            name = encodable(videos[int(chunk.split("-")[0])].name)
            failed[name] = (*failed.get(name, ()), letter.reason)
    session: Any = None
    with suppress(OSError, ValueError, RecursionError):
        session = json.loads((folder / _SESSION).read_text(encoding="utf-8"))
    names = {encodable(video.path): encodable(video.name) for video in videos}
    for path, reason in _unopened(session):
        if path in names:
            name = names[path]
            failed[name] = (*failed.get(name, ()), reason)
    return FolderRecord(
        asked={encodable(video.name): encodable(video.path) for video in videos},
        failed=failed,
        is_ended=_has_ended(session, folder, PartFiles(journal).path),
    )


def _unopened(session: Any) -> Iterator[tuple[str, str]]:
    """Yield path and reason of each video that could not be opened."""
    with suppress(KeyError, TypeError, IndexError):
        for loss in session["lost"]:
            if loss["index"] is None:
                yield str(session["inputs"][loss["input"]]["path"]), str(loss["cause"])


def _has_ended(session: Any, folder: Path, parts: Path) -> bool:
    try:
        tables = [name for name in session["outputs"] if name.endswith(".parquet")]
        has_tables = all((folder / name).is_file() for name in tables)
        # A killed run leaves part files.
        has_parts = parts.is_dir() and any(parts.iterdir())
        return session["outcome"] == "complete" and has_tables and not has_parts
    except (OSError, KeyError, TypeError, AttributeError):
        return False


_HELD_GROUPS: Final = 2
"""Row groups kept in memory: consecutive videos share them."""


@dataclass(frozen=True, kw_only=True)
class ListedVideo:
    """One video of a folder."""

    name: str
    """Name in the folder."""
    path: str
    """Path at the time of extraction."""
    n: int
    """Samples with a feature."""
    chunks: tuple[Listed, ...]
    """Its chunks in presentation order, failed ones first."""
    failed: tuple[str, ...] = ()
    """Why it was not opened, and why chunks failed that no table holds."""


class FeatureFolder:
    """Features of many videos. Holds no open file; for one thread at a time.

    Takes about 500 bytes of memory per chunk, and about 150 MB while rows are read.
    """

    def __init__(self, folder: Path) -> None:
        """Read the list of chunks of each table: about 1 % of its bytes.

        Raises:
            BackendError: pyarrow is missing.
            ConfigError: the folder does not exist, holds no features or features of several
                extractions, or a table is damaged.
        """
        check_extra("parquet", "a table of features")
        self.folder = folder
        tables = [TableFile(path) for path in _tables(folder)]
        listed = [row for table in tables for row in table.listed()]
        self.facts = _facts(tables, listed)
        """Facts shared by all features."""
        record = read_record(folder)
        self.videos = _videos(listed, record)
        """Name → video, in the order of the request; includes videos without features."""
        self.is_ended = record.is_ended
        """Whether its extraction has ended: see `FolderRecord`."""
        self._held: OrderedDict[tuple[Path, int], Any] = OrderedDict()

    def rows(self, name: str) -> Iterator[ChunkResult]:
        """Yield the rows of a video in presentation order, failed chunks first.

        Raises:
            ConfigError: a table is damaged, or cannot be read.
        """
        for row in self.videos[name].chunks:
            yield row.table.row(self._columns(row), row.place)

    def _columns(self, row: Listed) -> Any:
        key = row.table.path, row.group
        if key not in self._held:
            while len(self._held) >= _HELD_GROUPS:
                self._held.popitem(last=False)
            self._held[key] = row.table.columns(row.group)
        self._held.move_to_end(key)
        return self._held[key]

    def __getstate__(self) -> dict[str, Any]:
        """Drop the rows in memory: another process reads them again."""
        return {**vars(self), "_held": OrderedDict()}


_OTHER_OUTPUTS: Final = {
    "frames.parquet": "it holds images of headrace extract frames; read their table with "
    "pandas.read_parquet",
    "proxies.jsonl": "it holds proxies of headrace proxy; read them with headrace.Proxies",
}
"""File of another command → content of its folder, and how to read it."""


def _tables(folder: Path) -> list[Path]:
    with file_errors(
        f"cannot read features from {folder}",
        "give the folder that headrace extract features wrote",
    ):
        names = {path.name for path in folder.iterdir()}
    tables = sorted(folder.glob(PATTERN))
    if tables:
        return tables
    advice = f"write one with headrace extract features SOURCE -o {folder}"
    if ".extraction" in names:
        advice = "its extraction is unfinished; run the same command again to resume it"
    for file, output in _OTHER_OUTPUTS.items():
        if file in names:
            advice = output
    raise ConfigError(f"{folder} holds no table of features ({PATTERN}); {advice}")


def _facts(tables: list[TableFile], listed: list[Listed]) -> TableFacts:
    """Return the facts shared by all tables with features."""
    first, *others = dict.fromkeys(row.table for row in listed if row.outcome.came) or tables[:1]
    for table in others:
        for name, value in asdict(table.facts).items():
            expected = getattr(first.facts, name)
            if value != expected:
                is_digest = name == "request"
                difference = "other videos" if is_digest else f"{name} {value}, not {expected}"
                raise ConfigError(
                    f"{table.path} is from another extraction than {first.path.name}: "
                    f"{difference}; keep tables of one extraction in a folder"
                )
    return first.facts


def _videos(listed: list[Listed], record: FolderRecord) -> dict[str, ListedVideo]:
    """Return the requested videos, then other videos of the tables."""
    # A failed chunk may have succeeded in a later run.
    best: dict[str, Listed] = {}
    for row in listed:
        if row.chunk_id not in best or best[row.chunk_id].status == "failed":
            best[row.chunk_id] = row
    rows_of: dict[str, list[Listed]] = {name: [] for name in record.asked}
    for _, row in sorted(best.items()):
        rows_of.setdefault(row.video, []).append(row)
    return {
        name: ListedVideo(
            name=name,
            path=rows[0].path if rows else record.asked[name],
            n=sum(row.outcome.came for row in rows),
            chunks=tuple(sorted(rows, key=lambda row: row.first)),
            failed=record.failed.get(name, ()),
        )
        for name, rows in rows_of.items()
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class WholeVideo:
    """One video of a folder."""

    video: VideoName
    size: tuple[int, int]
    """(height, width), upright; (0, 0) if the video has no rows."""
    time_base: Fraction
    """Seconds per tick; 1 if the video has no rows."""
    samples: Samples
    """All samples with a feature, in presentation order."""
    lost: tuple[Lost, ...]
    """Samples without a feature, by index, without failed chunks."""
    errors: tuple[str, ...]
    """Reasons of failed chunks, each once."""

    @cached_property
    def seconds(self) -> NDArray[np.float64]:
        """float64 [n]: presentation time of each sample."""
        return self.samples.pts * self.time_base.numerator / self.time_base.denominator


def whole_video(folder: FeatureFolder, name: str) -> WholeVideo:
    """Read all features of a video into memory.

    Raises:
        ConfigError: a table is damaged, or cannot be read.
    """
    listed, rows = folder.videos[name], list(folder.rows(name))
    empty = Samples.empty(folder.facts.shape, folder.facts.dtype)
    parts = [empty, *(row.samples for row in rows if len(row.samples))]
    lost = (lost for row in rows for lost in row.lost)
    errors = (row.error for row in rows if row.error is not None)
    unread = VideoName(name=name, path=listed.path, content=None)
    return WholeVideo(
        video=rows[-1].video if rows else unread,
        size=rows[-1].size if rows else (0, 0),
        time_base=rows[-1].time_base if rows else Fraction(1),
        samples=Samples(
            **{name: np.concatenate([vars(part)[name] for part in parts]) for name in vars(empty)}
        ),
        lost=tuple(sorted(lost, key=lambda lost: lost.index)),
        errors=tuple(dict.fromkeys((*errors, *listed.failed))),
    )
