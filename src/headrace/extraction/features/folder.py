"""A folder of tables as one thing: which videos it has features of, and those of each, in order."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from headrace.errors import ConfigError, file_errors
from headrace.extraction.features.folder_record import FolderRecord, read_record
from headrace.extraction.features.table import PATTERN
from headrace.extraction.features.table_facts import TableFacts
from headrace.extraction.features.table_file import Listed, TableFile
from headrace.extraction.features.table_row import FeatureRow
from headrace.extras import check_extra

_HELD_GROUPS: Final = 2
"""Groups of rows that stay read: videos that follow each other share them."""


@dataclass(frozen=True, kw_only=True)
class ChunkPlace:
    """Where the row of a chunk lies."""

    table: int
    group: int
    place: int


@dataclass(frozen=True, kw_only=True)
class ListedVideo:
    """One video of a folder."""

    name: str
    """What it is called there."""
    path: str
    """Where it lay."""
    n: int
    """Samples that have a feature."""
    chunks: tuple[ChunkPlace, ...]
    """Its chunks in order of presentation, those that failed before the others."""
    failed: tuple[str, ...] = ()
    """Why each chunk that is in no table was left out."""


class FeatureFolder:
    """Features of many videos. Holds no open file; for one thread at a time.

    Takes some 500 bytes of memory a chunk, and some 150 MB for rows while they are read.
    """

    def __init__(self, folder: Path) -> None:
        """Read which chunks each table has: 1 % or so of its bytes.

        Raises:
            BackendError: pyarrow is missing.
            ConfigError: there is no such folder, it holds no features or those of several
                extractions, or a table is damaged.
        """
        check_extra("parquet", "a table of features")
        self.folder = folder
        self._tables = [TableFile(path) for path in _tables(folder)]
        listed = [table.listed() for table in self._tables]
        self.facts = _facts(self._tables, listed)
        """What all features have in common."""
        record = read_record(folder)
        self.videos = _asked(record, _videos(listed))
        """Name → video, in the order they were asked for; those too of which there is nothing."""
        self.is_ended = record.is_ended
        """Whether its extraction has ended: see `FolderRecord`."""
        self._held: OrderedDict[tuple[int, int], Any] = OrderedDict()

    def rows(self, name: str) -> Iterator[FeatureRow]:
        """Yield the rows of a video in order of presentation; those of chunks that failed first.

        Raises:
            ConfigError: a table is damaged, or cannot be read.
        """
        for chunk in self.videos[name].chunks:
            table = self._tables[chunk.table]
            yield table.row(self._columns(chunk), chunk.place)

    def _columns(self, chunk: ChunkPlace) -> Any:
        key = chunk.table, chunk.group
        if key not in self._held:
            while len(self._held) >= _HELD_GROUPS:
                self._held.popitem(last=False)
            self._held[key] = self._tables[chunk.table].columns(chunk.group)
        self._held.move_to_end(key)
        return self._held[key]

    def __getstate__(self) -> dict[str, Any]:
        """Another process reads for itself."""
        return {**vars(self), "_held": OrderedDict()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._held.clear()


def _tables(folder: Path) -> list[Path]:
    with file_errors(
        f"cannot read features from {folder}",
        "give the folder that headrace extract features wrote",
    ):
        names = {path.name for path in folder.iterdir()}
    found = sorted(folder.glob(PATTERN))
    if found:
        return found
    how = (
        "an extraction was begun there; run the same command again to go on with it"
        if ".extraction" in names
        else f"make them with headrace extract features SOURCE -o {folder}"
    )
    raise ConfigError(f"{folder} holds no table of features ({PATTERN}); {how}")


def _facts(tables: list[TableFile], listed: list[list[Listed]]) -> TableFacts:
    """Return what all tables with features say of them."""
    told = [
        (table.path, table.facts)
        for table, rows in zip(tables, listed, strict=True)
        if any(row.n for row in rows)
    ]
    if not told:
        return tables[0].facts
    (first, known), *others = told
    for path, facts in others:
        for name, value in asdict(facts).items():
            before = getattr(known, name)
            if value != before:
                is_digest = name == "request"
                what = (
                    "other videos were asked for" if is_digest else f"{name} {value}, not {before}"
                )
                raise ConfigError(
                    f"{path} is of another extraction than {first.name}: {what}; keep tables of "
                    "one extraction in a folder"
                )
    return known


def _asked(record: FolderRecord, found: dict[str, ListedVideo]) -> dict[str, ListedVideo]:
    """Return the videos that were asked for, with what was found of them, and all others found."""
    asked = {
        name: found.get(name, ListedVideo(name=name, path=path, n=0, chunks=()))
        for name, path in record.asked.items()
    }
    return {
        name: replace(video, failed=record.failed.get(name, ()))
        for name, video in {**asked, **found}.items()
    }


def _videos(listed: list[list[Listed]]) -> dict[str, ListedVideo]:
    # A chunk that failed may have been tried again, with success, in a later run.
    best: dict[str, tuple[int, Listed]] = {}
    for table, rows in enumerate(listed):
        for row in rows:
            if row.chunk_id not in best or best[row.chunk_id][1].status == "failed":
                best[row.chunk_id] = table, row
    chunks: dict[str, list[tuple[int, Listed]]] = {}
    for chunk_id in sorted(best):
        chunks.setdefault(best[chunk_id][1].video, []).append(best[chunk_id])
    return {
        name: ListedVideo(
            name=name,
            path=found[0][1].path,
            n=sum(row.n for _, row in found),
            chunks=tuple(
                ChunkPlace(table=table, group=row.group, place=row.place)
                for table, row in sorted(found, key=lambda each: each[1].first)
            ),
        )
        for name, found in chunks.items()
    }
