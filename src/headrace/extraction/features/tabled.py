"""The tables of an output folder: which chunks they hold, and how parts become tables."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import ConfigError
from headrace.extraction.features.chunks import ChunkSpec
from headrace.extraction.features.outcome import Outcome
from headrace.extraction.features.parts import Parts
from headrace.extraction.features.result import ChunkResult
from headrace.extraction.features.table import PATTERN, write_tables
from headrace.extraction.features.table_facts import TableFacts
from headrace.extraction.features.table_file import TableFile
from headrace.extraction.features.table_row import VideoName, row_of_result


@dataclass(eq=False)
class Tables:
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
        self, results: Iterable[ChunkResult], video: Callable[[int], VideoName]
    ) -> Iterator[str]:
        """Write results as new tables; yield name of each chunk once its table is on the disk.

        Raises:
            ConfigError: they cannot be written.
        """
        rows = (row_of_result(each, video(each.chunk.video)) for each in results)
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
    tables: Tables, parts: Parts, chunks: Iterable[ChunkSpec], video: Callable[[int], VideoName]
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
