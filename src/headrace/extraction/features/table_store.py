"""Storage of features in a folder: part files of single chunks, later tables."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from headrace.atomic_file import partial_of, write_bytes_whole
from headrace.cache.key import CacheEntry as Encoded
from headrace.cache.key import ChunkKey, decode, encode
from headrace.errors import CacheError, ConfigError, file_errors
from headrace.extraction.features.feature_result import ChunkResult, ResultInfo, VideoName
from headrace.extraction.features.feature_table import (
    FEATURES,
    PATTERN,
    TEXTS,
    TableFacts,
    TableFile,
    columns_of,
    schema_of,
)
from headrace.extraction.journal import HOME, Journal, JournalEntry, Outcome
from headrace.planning.chunks import Chunk
from headrace.records import from_dict, to_dict
from headrace.runtime.clock import SYSTEM_CLOCK, Clock


class TableOutput:
    """Writer of a Parquet file, which appears when it is closed; without `close`, it is removed.

    with TableOutput(path, schema) as output:
        output.write(columns)
        output.close()
    """

    def __init__(self, path: Path, schema: Any, **options: Any) -> None:
        """Open the file.

        Args:
            path: Path of the finished file.
            schema: pyarrow schema.
            options: Options of pyarrow's `ParquetWriter`.

        Raises:
            ConfigError: the file cannot be written, or exists.
        """
        import pyarrow.parquet

        self.path = path
        """Path of the finished file."""
        self._partial = partial_of(path)
        if path.exists():
            raise ConfigError(f"{path} already exists; give another name, or delete it")
        with self._table_errors():
            self._file: BinaryIO = self._partial.open("wb")
        self._writer: Any = pyarrow.parquet.ParquetWriter(
            self._file, schema, compression="zstd", write_page_checksum=True, **options
        )

    @property
    def num_bytes(self) -> int:
        """Bytes written so far."""
        return self._file.tell()

    def write(self, columns: Any) -> None:
        """Append a pyarrow table as one row group.

        Raises:
            ConfigError: the file cannot be written.
        """
        with self._table_errors():
            self._writer.write_table(columns)

    def close(self) -> None:
        """Finish the file and sync it to disk; its sources may then be removed.

        Raises:
            ConfigError: the file cannot be written.
        """
        with self._table_errors():
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self.path)
            _sync(self.path.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Remove a file that was not closed."""
        for end in (self._writer.close, self._file.close, self._partial.unlink):
            with suppress(OSError):
                end()

    def _table_errors(self) -> AbstractContextManager[None]:
        return file_errors(f"cannot write {self.path}", "give a writable path")


def _sync(folder: Path) -> None:
    """Sync the directory entries of a folder to disk."""
    with suppress(PermissionError):  # a folder may be writable but not readable
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


_TABLE_BYTES: Final = 512 << 20
"""Bytes after which a table ends, except for its last row group."""
_GROUP_BYTES: Final = 8 << 20
"""Bytes of features per row group: about ten chunks."""
_GROUP_ROWS: Final = 1024


def write_tables(
    folder: Path, rows: Iterable[ChunkResult], facts: TableFacts, *, table_bytes: int = _TABLE_BYTES
) -> Iterator[tuple[Path, list[str]]]:
    """Write rows as new tables beside existing ones; yield path and chunks of each on disk.

    Rows are consumed as needed; about 30 MB stay in memory. Reading is fastest if the rows of a
    video are consecutive.

    Args:
        folder: Folder of the tables; it exists.
        rows: Results of chunks.
        facts: Facts shared by all rows.
        table_bytes: Bytes after which a table ends and the next one starts.

    Raises:
        ConfigError: a table cannot be written, or features do not match the facts. Yielded tables
            stay; unfinished ones are removed.
    """
    number = _next_number(folder)
    groups = _row_groups(rows)
    group = next(groups, None)
    while group is not None:
        path = folder / f"features-{number:05d}.parquet"
        chunk_ids: list[str] = []
        with TableOutput(
            path, schema_of(facts), use_dictionary=list(TEXTS), use_byte_stream_split=[FEATURES]
        ) as output:
            while group is not None:
                output.write(columns_of(group, facts))
                chunk_ids += [row.chunk_id for row in group]
                group = None if output.num_bytes >= table_bytes else next(groups, None)
            output.close()
        yield path, chunk_ids
        number += 1
        group = next(groups, None)


def _row_groups(rows: Iterable[ChunkResult]) -> Iterator[list[ChunkResult]]:
    """Yield lists of rows, one per row group."""
    group: list[ChunkResult] = []
    num_bytes = 0
    for row in rows:
        group.append(row)
        num_bytes += row.samples.features.nbytes
        if num_bytes >= _GROUP_BYTES or len(group) >= _GROUP_ROWS:
            yield group
            group, num_bytes = [], 0
    if group:
        yield group


def _next_number(folder: Path) -> int:
    """Return the number after the last existing table, damaged ones included."""
    numbers = (path.name.split("-")[1].split(".")[0] for path in folder.glob(f"{PATTERN}*"))
    return max((int(digits) for digits in numbers if digits.isdecimal()), default=-1) + 1


_FOLDER: Final = f"{HOME}/parts"


class PartFiles:
    """Part files of one output folder, each in the encoding of the cache, with a checksum."""

    def __init__(self, journal: Journal, clock: Clock = SYSTEM_CLOCK) -> None:
        """Read and create nothing yet."""
        self.journal, self._clock = journal, clock

    def write(self, result: ChunkResult) -> ChunkResult:
        """Write a result atomically, then its journal entry.

        Returns:
            The result with the write time.

        Raises:
            ConfigError: the part file cannot be written.
        """
        began_ns, chunk = self._clock.now_ns(), result.chunk_id
        name = f"{_FOLDER}/{chunk}"
        content = encode(Encoded(_key_of(chunk), result.arrays()))
        self.path.mkdir(exist_ok=True)
        write_bytes_whole(self.journal.folder / name, content)
        info = result.made
        write_ms = (self._clock.now_ns() - began_ns) / 1e6
        info = replace(info, times=replace(info.times, write_ms=write_ms))
        facts = {"outcome": to_dict(result.outcome), "made": to_dict(info)}
        self.journal.write(chunk, JournalEntry(files=((name, len(content)),), facts=facts))
        return replace(result, made=info)

    def read(self, chunks: Iterable[Chunk], damaged: list[str]) -> Iterator[ChunkResult]:
        """Yield the result of each chunk, in order; add chunks with a damaged file to `damaged`."""
        for chunk in chunks:
            entry = self.journal.done([chunk.name])[chunk.name]
            ((file, _),) = entry.files
            try:
                content = (self.journal.folder / file).read_bytes()
                arrays = decode(content, _key_of(chunk.name).digest).arrays
                info = from_dict(ResultInfo, entry.facts["made"], file=file)
                yield ChunkResult.of_arrays(chunk, arrays, info)
            except (OSError, ConfigError, CacheError):
                damaged.append(chunk.name)

    def forget_all(self, chunks: Collection[str]) -> None:
        """Remove part files of `chunks`, left by a killed run."""
        with suppress(FileNotFoundError):
            for path in list(self.path.iterdir()):
                if path.name in chunks:
                    self.journal.forget(path.name)

    @property
    def path(self) -> Path:
        """Folder of the part files."""
        return self.journal.folder / _FOLDER


def _key_of(chunk: str) -> ChunkKey:
    """Return a key from the name of the chunk, the only identity of part files."""
    empty: dict[str, str] = {}
    return ChunkKey(
        kind="part of features",
        content=chunk,
        **dict.fromkeys(("selection", "decode", "preprocess", "model", "numerics"), empty),
    )


@dataclass(eq=False)
class TableStore:
    """Tables of a folder. The list of chunks of each is read once."""

    folder: Path
    facts: TableFacts
    """Facts shared by all tables."""
    damaged: list[str] = field(default_factory=list)
    """Damaged tables that were renamed, with the reason, one line each."""
    _known: dict[Path, dict[str, Outcome]] = field(default_factory=dict)

    def paths(self) -> list[Path]:
        """Return the existing tables, in order."""
        return sorted(self.folder.glob(PATTERN))

    def outcomes(self) -> dict[str, Outcome]:
        """Return name of each chunk in a table → its outcome."""
        known: dict[Path, dict[str, Outcome]] = {}
        for path in self.paths():
            known[path] = self._known.get(path, {})
            if not known[path]:
                with suppress(ConfigError):
                    known[path] = self._outcomes_of(path)
        self._known = known
        return {name: outcome for outcomes in known.values() for name, outcome in outcomes.items()}

    def set_aside_damaged(self) -> None:
        """Rename damaged tables; their chunks then count as unfinished.

        Raises:
            ConfigError: a table cannot be renamed.
        """
        for path in self.paths():
            try:
                self._known[path] = self._outcomes_of(path)
            except ConfigError as error:
                aside = path.with_name(f"{path.name}.damaged")
                try:
                    path.replace(aside)
                except OSError as fault:
                    raise ConfigError(
                        f"{error}; it cannot be renamed either: {fault.strerror}"
                    ) from error
                self.damaged.append(f"{path.name} was renamed to {aside.name}: {error}")

    def write(
        self, results: Iterable[ChunkResult], video: Callable[[str], VideoName]
    ) -> Iterator[str]:
        """Write results as new tables; yield the name of each chunk when its table is on disk.

        Raises:
            ConfigError: a table cannot be written.
        """
        rows = (replace(result, video=video(result.chunk_id)) for result in results)
        for _, chunk_ids in write_tables(self.folder, rows, self.facts):
            yield from chunk_ids

    def _outcomes_of(self, path: Path) -> dict[str, Outcome]:
        table = TableFile(path)
        if table.facts != self.facts:
            raise ConfigError(f"{path} is from another extraction")
        return {row.chunk_id: row.outcome for row in table.listed() if row.status == "done"}


def gather(
    tables: TableStore, parts: PartFiles, chunks: Iterable[Chunk], video: Callable[[str], VideoName]
) -> None:
    """Write the part files of `chunks` to tables, and remove each when a table holds it.

    Raises:
        ConfigError: a table cannot be written; or a part file was damaged, and was removed, so that
            the next run computes it again. All other part files are in tables then.
    """
    damaged: list[str] = []
    for name in tables.write(parts.read(chunks, damaged), video):
        parts.journal.forget(name)
    for name in damaged:
        parts.journal.forget(name)
    if damaged:
        raise ConfigError(
            f"{len(damaged)} damaged part files, the first is {parts.path / damaged[0]}; run the "
            "same command again to compute their chunks again"
        )
