"""Pilot run: a few small chunks in a child process, discarded, to estimate the extraction."""

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
"""Seconds after which no chunk starts."""


@dataclass(kw_only=True, eq=False)
class Pilot:
    """Measurements of the small chunks, without failed ones.

    Estimates assume that bytes and time grow with pixels.
    """

    frames: int = 0
    """Frames extracted."""
    pixels: float = 0
    """Pixels of these frames in the output."""
    decoded_pixels: float = 0
    """Pixels of all frames decoded for them."""
    sizes: list[int] = field(default_factory=list)
    """Bytes of the first file of each chunk."""
    work_ms: Counter[str] = field(default_factory=Counter)
    """Part of the work → milliseconds."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Name of a chunk that failed → reason."""

    def num_bytes(self, pixels: float) -> int | None:
        """Return the bytes of `pixels` output pixels; None if every chunk failed."""
        return round(sum(self.sizes) / self.pixels * pixels) if self.sizes else None

    def seconds(self, pixels: float, decoded_pixels: float) -> float | None:
        """Return the seconds of one worker, without writing; None if every chunk failed."""
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
    """Run small chunks in a worker of the extraction, with a temporary output folder.

    A chunk that crashes the child is left out. The cache and stored frames are not used.

    Args:
        extraction: Extraction to estimate.
        pieces: Parts of its chunks.
        size_of: (height, width) of an upright frame → (height, width) of the output.
        more: Further arguments of the worker.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
        StageError: no worker could start.
    """
    plan, measured = extraction.plan, Pilot()
    by_name = {piece.name: piece for piece in pieces}

    def hear(worker: str, name: str, message: Json) -> None:
        upright = plan.indexes[by_name[name].video].info.upright_size
        match message:
            case {"step": {"frames": int(frames), "work_ms": dict(work)}}:
                measured.frames += frames
                measured.pixels += frames * pixels_of(size_of(upright))
                measured.work_ms.update(work)
            case {"failed": {"why": str(why)}}:  # the next chunk would fail as well
                measured.failed = {**measured.failed, name: why}
                raise StageError(why, stage="sample")
            case {"chunk": {"decode": {"frames_decoded": int(decoded)}}}:
                measured.decoded_pixels += max(1, decoded) * pixels_of(upright)

    with TemporaryDirectory(prefix="headrace-") as folder:
        journal = Journal(Path(folder) / "out")
        with journal.held(plan.request), journal.telling(NONE):
            more = {"raises": False, "seconds": _SECONDS, "spill": None, **(more or {})}
            try:
                outcome = run_chunks(
                    extraction.pool_task(journal, 1, more),
                    {name: chunk_message(piece) for name, piece in by_name.items()},
                    on_message=hear,
                    clock=extraction.clock,
                )
            except StageError:
                if not measured.failed:
                    raise
            else:
                if outcome.is_interrupted:
                    raise KeyboardInterrupt
                measured.failed = outcome.poisoned
            entries = journal.done(by_name)
            measured.sizes = [entry.files[0][1] for entry in entries.values() if entry.files]
            measured.failed = {**measured.failed, **_left_out(extraction, entries)}
    return measured


def _left_out(extraction: Extraction[Any], entries: Mapping[str, JournalEntry]) -> dict[str, str]:
    """Return name → cause of each chunk that finished without output."""
    lost = {
        name: extraction.outcome_of(entry).lost
        for name, entry in entries.items()
        if not entry.files
    }
    return {name: losses[0].cause for name, losses in lost.items() if losses}


def pixels_of(size: tuple[int, int]) -> int:
    """Return the pixels of a frame of (height, width) `size`."""
    return size[0] * size[1]
