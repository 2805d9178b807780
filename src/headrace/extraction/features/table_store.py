"""Where features of a folder lie: parts of single chunks, until a table holds them."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from headrace.atomic_file import write_bytes_whole
from headrace.cache.entry import CacheEntry as Encoded
from headrace.cache.entry import decode, encode
from headrace.cache.key import ChunkKey
from headrace.errors import CacheError, ConfigError
from headrace.extraction.features.feature_result import (
    ChunkResult,
    ResultInfo,
    VideoName,
)
from headrace.extraction.features.table import PATTERN, TableFile, write_tables
from headrace.extraction.features.table_columns import TableFacts
from headrace.extraction.journal import HOME, Journal, JournalEntry, Outcome
from headrace.planning.chunks import Chunk
from headrace.records import from_dict, to_dict
from headrace.runtime.clock import SYSTEM_CLOCK, Clock

_FOLDER: Final = f"{HOME}/parts"


class PartFiles:
    """The parts of one output folder: each in the encoding of the cache, with a checksum."""

    def __init__(self, journal: Journal, clock: Clock = SYSTEM_CLOCK) -> None:
        """Read and make nothing yet."""
        self._journal, self._clock = journal, clock

    def write(self, result: ChunkResult) -> ChunkResult:
        """Keep a result, whole, then note in the journal that its chunk is done.

        Returns:
            The result with the time that writing it took.

        Raises:
            ConfigError: it cannot be written.
        """
        began_ns, chunk = self._clock.now_ns(), result.chunk_id
        name = f"{_FOLDER}/{chunk}"
        content = encode(Encoded(_key_of(chunk), result.arrays()))
        self.path.mkdir(exist_ok=True)
        write_bytes_whole(self._journal.folder / name, content)
        made = result.made
        write_ms = (self._clock.now_ns() - began_ns) / 1e6
        made = replace(made, times=replace(made.times, write_ms=write_ms))
        facts = {"outcome": to_dict(result.outcome), "made": to_dict(made)}
        self._journal.write(chunk, JournalEntry(files=((name, len(content)),), facts=facts))
        return replace(result, made=made)

    def read(self, chunks: Iterable[Chunk]) -> Iterator[ChunkResult | Chunk]:
        """Yield what came of each chunk, in order; the chunk itself where its part is damaged."""
        for chunk in chunks:
            entry = self._journal.done([chunk.name])[chunk.name]
            ((file, _),) = entry.files
            try:
                content = (self._journal.folder / file).read_bytes()
                arrays = decode(content, _key_of(chunk.name).digest).arrays
                made = from_dict(ResultInfo, entry.facts["made"], file=file)
                yield ChunkResult.of_arrays(chunk, arrays, made)
            except (OSError, ConfigError, CacheError):
                yield chunk

    def forget(self, chunk: str) -> None:
        """Remove the part of a chunk; then it is not done, unless a table holds it."""
        self._journal.forget(chunk)

    def forget_all(self, chunks: Collection[str]) -> None:
        """Remove those parts of `chunks` that there are: a run was ended before it could."""
        with suppress(FileNotFoundError):
            for path in list(self.path.iterdir()):
                if path.name in chunks:
                    self.forget(path.name)

    @property
    def path(self) -> Path:
        """The folder they lie in."""
        return self._journal.folder / _FOLDER


def _key_of(chunk: str) -> ChunkKey:
    """A key that says which chunk of the folder it is: parts are found by nothing else."""
    nothing: dict[str, str] = {}
    return ChunkKey(
        kind="part of features",
        content=chunk,
        **dict.fromkeys(("selection", "decode", "preprocess", "model", "numerics"), nothing),
    )


@dataclass(eq=False)
class TableStore:
    """The tables of a folder. Each is read once, and only which chunks it holds."""

    folder: Path
    facts: TableFacts
    """What all of them have in common."""
    damaged: list[str] = field(default_factory=list)
    """What was set aside, and why, one line each."""
    _known: dict[Path, dict[str, Outcome]] = field(default_factory=dict)

    def paths(self) -> list[Path]:
        """Return the tables that are there, in order."""
        return sorted(self.folder.glob(PATTERN))

    def outcomes(self) -> dict[str, Outcome]:
        """Return name of each chunk that a table holds → what came of it."""
        known: dict[Path, dict[str, Outcome]] = {}
        for path in self.paths():
            known[path] = self._known.get(path) or self._read(path)
        self._known = known
        return {name: each for outcomes in known.values() for name, each in outcomes.items()}

    def set_aside_damaged(self) -> None:
        """Rename tables that cannot be read; their chunks are not done then.

        Raises:
            ConfigError: one cannot be renamed.
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
                self.damaged.append(f"{path.name} was set aside as {aside.name}: {error}")

    def write(
        self, results: Iterable[ChunkResult], video: Callable[[str], VideoName]
    ) -> Iterator[str]:
        """Write results as new tables; yield name of each chunk once its table is on the disk.

        Raises:
            ConfigError: they cannot be written.
        """
        rows = (replace(result, video=video(result.chunk_id)) for result in results)
        for written in write_tables(self.folder, rows, self.facts):
            yield from written.chunk_ids

    def _read(self, path: Path) -> dict[str, Outcome]:
        try:
            return self._outcomes_of(path)
        except ConfigError:
            return {}

    def _outcomes_of(self, path: Path) -> dict[str, Outcome]:
        table = TableFile(path)
        if table.facts != self.facts:
            raise ConfigError(f"{path} is of another extraction")
        return dict(table.outcomes())


def gather(
    tables: TableStore, parts: PartFiles, chunks: Iterable[Chunk], video: Callable[[str], VideoName]
) -> None:
    """Put the parts of `chunks` into tables, and remove each once a table holds it.

    Raises:
        ConfigError: a table cannot be written; or a part is damaged, and was removed, so that the
            next run makes it anew. All others are in tables then.
    """
    bad: list[str] = []

    def whole() -> Iterator[ChunkResult]:
        for each in parts.read(chunks):
            if isinstance(each, ChunkResult):
                yield each
            else:
                bad.append(each.name)

    for name in tables.write(whole(), video):
        parts.forget(name)
    for name in bad:
        parts.forget(name)
    if bad:
        raise ConfigError(
            f"{parts.path / bad[0]} was damaged on the disk (of {len(bad)} in all), and is left "
            "out; run the same command again to make it anew"
        )
