"""A few pieces of an extraction, done in a child process and thrown away, to estimate the rest."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from headrace.cache.cache_url import NONE
from headrace.errors import StageError
from headrace.extraction.chunk_worker import chunk_message
from headrace.extraction.extraction import Extraction
from headrace.extraction.journal import Journal, JournalEntry
from headrace.planning.chunks import Chunk
from headrace.runtime.child_spec import Json
from headrace.runtime.worker_pool import run_chunks

_SECONDS: Final = 5.0
"""After so long no further piece is begun."""


@dataclass(kw_only=True, eq=False)
class Pilot:
    """What came of pieces of chunks; those that could not be made are missing.

    Sizes are for files whose bytes go with their pixels, times for work that does.
    """

    frames: int = 0
    """That came."""
    pixels: float = 0
    """Of these, as they are written."""
    decoded_pixels: float = 0
    """Of frames that were decoded for them."""
    sizes: list[int] = field(default_factory=list)
    """Bytes of the first file of each piece."""
    work_ms: Counter[str] = field(default_factory=Counter)
    """Part of the work → milliseconds."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Name of a piece that ended its process → why."""

    def num_bytes(self, pixels: float) -> int | None:
        """Return the bytes of so many pixels; None where nothing came."""
        return round(sum(self.sizes) / self.pixels * pixels) if self.sizes else None

    def seconds(self, pixels: float, decoded_pixels: float) -> float | None:
        """Return how long one worker takes, without writing; None where nothing came."""
        if not self.sizes:
            return None
        decoding = self.work_ms["decode"] / self.decoded_pixels
        others = sum(ms for part, ms in self.work_ms.items() if part not in ("decode", "write"))
        return (decoded_pixels * decoding + pixels * others / self.pixels) / 1e3


def pilot(
    extraction: Extraction[Any],
    pieces: Sequence[Chunk],
    size_of: Callable[[tuple[int, int]], tuple[int, int]],
    *,
    more: Mapping[str, Json] | None = None,
) -> Pilot:
    """Return what came of pieces, done by the worker of the extraction in a temporary folder.

    A piece that ends the child is left out; nothing is taken from a cache, or put into it.

    Args:
        extraction: What would be done.
        pieces: Beginnings of its chunks, or single frames of them.
        size_of: (height, width) of an upright frame → that of what is written.
        more: What else the worker is sent.

    Raises:
        KeyboardInterrupt: somebody pressed Ctrl-C.
        StageError: nothing could be begun.
    """
    plan, found = extraction.plan, Pilot()
    of = {piece.name: piece for piece in pieces}

    def hear(worker: str, name: str, said: Json) -> None:
        upright = plan.indexes[of[name].video].info.upright_size
        match said:
            case {"step": {"frames": int(frames), "work_ms": dict(work)}}:
                found.frames += frames
                found.pixels += frames * pixels_of(size_of(upright))
                found.work_ms.update(work)
            case {"failed": {"why": str(why)}}:  # the next one would fail as well
                found.failed = {**found.failed, name: why}
                raise StageError(why, stage="sample")
            case {"chunk": {"decode": {"frames_decoded": int(decoded)}}}:
                found.decoded_pixels += max(1, decoded) * pixels_of(upright)

    with TemporaryDirectory(prefix="headrace-") as folder:
        journal = Journal(Path(folder) / "out")
        with journal.held(plan.request), journal.telling(NONE):
            told: dict[str, Json] = {"raises": False, "seconds": _SECONDS, **(more or {})}
            try:
                outcome = run_chunks(
                    extraction.work(journal, 1, told),
                    {name: chunk_message(piece) for name, piece in of.items()},
                    on_message=hear,
                    clock=extraction.clock,
                )
            except StageError:
                if not found.failed:
                    raise
            else:
                if outcome.is_interrupted:
                    raise KeyboardInterrupt
                found.failed = outcome.poisoned
            entries = journal.done(of)
            found.sizes = [entry.files[0][1] for entry in entries.values() if entry.files]
            found.failed = {**found.failed, **_left_out(extraction, entries)}
    return found


def _left_out(extraction: Extraction[Any], entries: Mapping[str, JournalEntry]) -> dict[str, str]:
    """Return the cause of each piece that was done and gave nothing, by its name."""
    lost = {n: extraction.outcome_of(entry).lost for n, entry in entries.items() if not entry.files}
    return {name: found[0].cause for name, found in lost.items() if found}


def pixels_of(size: tuple[int, int]) -> int:
    """Return how many pixels a frame of (height, width) `size` has."""
    return size[0] * size[1]
