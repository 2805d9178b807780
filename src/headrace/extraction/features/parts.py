"""Parts: what came of single chunks, in files of the ledger, until a table holds it."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from headrace.cache.entry import Entry as Encoded
from headrace.cache.entry import decode, encode
from headrace.cache.key import ChunkKey
from headrace.errors import CacheError, ConfigError
from headrace.extraction.features.chunks import ChunkSpec
from headrace.extraction.features.outcome import Outcome
from headrace.extraction.features.result import ChunkResult, Made
from headrace.extraction.ledger import HOME, Entry, Ledger
from headrace.records import from_dict, to_dict
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.text_file import write_bytes_whole

_FOLDER: Final = f"{HOME}/parts"


class Parts:
    """The parts of one output folder: each in the encoding of the cache, with a checksum."""

    def __init__(self, ledger: Ledger, clock: Clock = SYSTEM_CLOCK) -> None:
        """Read and make nothing yet."""
        self._ledger, self._clock = ledger, clock

    def write(self, result: ChunkResult) -> ChunkResult:
        """Keep a result, whole, then note in the ledger that its chunk is done.

        Returns:
            The result with the time that writing it took.

        Raises:
            ConfigError: it cannot be written.
        """
        began_ns, chunk = self._clock.now_ns(), result.chunk
        name = f"{_FOLDER}/{chunk.name}"
        content = encode(Encoded(_key_of(chunk), result.arrays()))
        self.path.mkdir(exist_ok=True)
        write_bytes_whole(self._ledger.folder / name, content)
        made = result.made
        write_ms = (self._clock.now_ns() - began_ns) / 1e6
        made = replace(made, times=replace(made.times, write_ms=write_ms))
        facts = {"outcome": to_dict(Outcome.of(result)), "made": to_dict(made)}
        self._ledger.write(chunk.name, Entry(files=((name, len(content)),), facts=facts))
        return replace(result, made=made)

    def outcomes(self, chunks: Iterable[ChunkSpec]) -> dict[str, Outcome]:
        """Return name of each chunk that has a part → what came of it. Reads no feature."""
        done = self._ledger.done(chunk.name for chunk in chunks)
        return {
            name: from_dict(Outcome, entry.facts["outcome"], file=f"the entry of chunk {name}")
            for name, entry in done.items()
        }

    def read(self, chunks: Iterable[ChunkSpec]) -> Iterator[ChunkResult | ChunkSpec]:
        """Yield what came of each chunk, in order; the chunk itself where its part is damaged."""
        for chunk in chunks:
            entry = self._ledger.done([chunk.name])[chunk.name]
            ((file, _),) = entry.files
            try:
                content = (self._ledger.folder / file).read_bytes()
                arrays = decode(content, _key_of(chunk).digest).arrays
                made = from_dict(Made, entry.facts["made"], file=file)
                yield ChunkResult.of_arrays(chunk, arrays, made)
            except (OSError, ConfigError, CacheError):
                yield chunk

    def forget(self, chunk: str) -> None:
        """Remove the part of a chunk; then it is not done, unless a table holds it."""
        self._ledger.forget(chunk)

    def forget_all(self, chunks: Collection[str]) -> None:
        """Remove those parts of `chunks` that there are: a run was ended before it could."""
        with suppress(FileNotFoundError):
            for path in list(self.path.iterdir()):
                if path.name in chunks:
                    self.forget(path.name)

    @property
    def path(self) -> Path:
        """The folder they lie in."""
        return self._ledger.folder / _FOLDER


def _key_of(chunk: ChunkSpec) -> ChunkKey:
    """A key that says which chunk of the folder it is: parts are found by nothing else."""
    nothing: dict[str, str] = {}
    return ChunkKey(
        kind="part of features",
        content=chunk.name,
        **dict.fromkeys(("selection", "decode", "preprocess", "model", "numerics"), nothing),
    )
