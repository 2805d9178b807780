"""Pilot run: a few small chunks in a child process, discarded, to estimate the extraction."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

from headrace.cache.cache_url import NONE
from headrace.errors import StageError
from headrace.extraction.chunk_worker import chunk_message
from headrace.extraction.extraction import Extraction
from headrace.extraction.extraction_plan import Estimate
from headrace.extraction.journal import Journal
from headrace.planning.chunks import Chunk
from headrace.profiling.number_format import counted, megabytes, seconds
from headrace.runtime.child_process import Json
from headrace.runtime.worker_pool import run_chunks

_SECONDS: Final = 5.0
"""Seconds after which no further chunk starts."""


@dataclass(kw_only=True, eq=False)
class Pilot:
    """Measurements of the small chunks that succeeded.

    Estimates assume that bytes and time grow with pixels.
    """

    size_of: Callable[[tuple[int, int]], tuple[int, int]]
    """(height, width) of an upright frame → (height, width) of the output."""
    frames: int = 0
    """Frames extracted."""
    pixels: float = 0
    """Output pixels of these frames."""
    decoded_pixels: float = 0
    """Pixels of all frames decoded for them."""
    sizes: list[int] = field(default_factory=list)
    """Bytes of the first file of each chunk."""
    work_ms: Counter[str] = field(default_factory=Counter)
    """Part of the work → milliseconds."""
    failed: dict[str, str] = field(default_factory=dict)
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
    chunks: Sequence[Chunk],
    size_of: Callable[[tuple[int, int]], tuple[int, int]],
) -> Pilot:
    """Run small chunks in a worker of the extraction, with a temporary output folder.

    A chunk that crashes the child is left out. The cache and the spill store are not used.

    Args:
        extraction: Extraction to estimate.
        chunks: Parts of its chunks.
        size_of: (height, width) of an upright frame → (height, width) of the output.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
        StageError: no worker could start.
    """
    plan, measured = extraction.plan, Pilot(size_of=size_of)
    by_name = {chunk.name: chunk for chunk in chunks}

    def on_message(worker: str, name: str, message: Json) -> None:
        upright = plan.indexes[by_name[name].video].info.upright_size
        match message:
            case {"step": {"frames": int(frames), "work_ms": dict(work)}}:
                measured.frames += frames
                measured.pixels += frames * pixels_of(size_of(upright))
                measured.work_ms.update(work)
            case {"failed": {"why": str(reason)}}:  # the next chunk would fail as well
                measured.failed[name] = reason
                raise StageError(reason, stage="sample")
            case {"chunk": {"decode": {"frames_decoded": int(decoded)}}}:
                measured.decoded_pixels += max(1, decoded) * pixels_of(upright)

    with TemporaryDirectory(prefix="headrace-") as folder:
        journal = Journal(Path(folder) / "out")
        with journal.held(plan.request), journal.sharing_secret(NONE):
            try:
                outcome = run_chunks(
                    extraction.pool_task(
                        journal, 1, {"raises": False, "seconds": _SECONDS, "spill": None}
                    ),
                    {name: chunk_message(chunk) for name, chunk in by_name.items()},
                    on_message=on_message,
                    clock=extraction.clock,
                )
            except StageError:
                if not measured.failed:
                    raise
            else:
                if outcome.is_interrupted:
                    raise KeyboardInterrupt
                measured.failed.update(outcome.poisoned)
            entries = journal.done(by_name)
    measured.sizes = [entry.files[0][1] for entry in entries.values() if entry.files]
    for name, entry in entries.items():
        losses = () if entry.files else extraction.outcome_of(entry).lost
        if losses:
            measured.failed[name] = losses[0].cause
    return measured


def pixels_of(size: tuple[int, int]) -> int:
    """Return the pixels of a frame of (height, width) `size`."""
    return size[0] * size[1]


@dataclass(frozen=True, kw_only=True)
class PixelEstimate(Estimate):
    """Estimate for image or video files, from mean bytes and time per pixel of a few samples."""

    frames: int
    """Frames in the output, exact if no frame is damaged."""
    tried: int
    """Frames written for the estimate."""
    failures: tuple[str, ...] = ()
    """Reasons of failed samples, one line each."""

    def problems(self) -> tuple[str, ...]:
        """Return one line for each failed sample."""
        return self.failures

    def lines(self, out: Path) -> Iterator[str]:
        """Yield the text of a dry run: see `Estimate.lines`."""
        if self.num_bytes is None or self.seconds is None:
            reason = "no sample could be decoded, so size and time are unknown"
            yield f"Dry run: {self.contents} would be written to {out}; {reason}"
            return
        yield f"Dry run: {self.contents} would be written to {out}"
        yield f"Size: about {megabytes(self.num_bytes)}, {self.size_basis}"
        workers = counted(self.workers, "worker")
        yield f"Time: about {seconds(self.seconds)} on {workers}, estimated from the samples"

    @classmethod
    def of(
        cls,
        extraction: Extraction[Any],
        samples: Pilot,
        names: Mapping[str, str],
        **fields: Any,
    ) -> Self:
        """Return the estimate of an extraction.

        Args:
            extraction: Extraction to estimate.
            samples: Measurements of some of its frames.
            names: Name of each sampled chunk → its name in messages.
            fields: Fields of the subclass.
        """
        plan, workers, size_of = extraction.plan, extraction.workers, samples.size_of
        sizes = {video: index.info.upright_size for video, index in plan.indexes.items()}
        pixels = sum(pixels_of(size_of(sizes[chunk.video])) * chunk.frames for chunk in plan.chunks)
        decoded = sum(pixels_of(sizes[chunk.video]) * chunk.decoded for chunk in plan.chunks)
        spent_seconds = samples.seconds(pixels, decoded)
        return cls(
            videos=len(plan.indexes),
            frames=plan.total,
            tried=samples.frames,
            num_bytes=samples.num_bytes(pixels),
            seconds=None if spent_seconds is None else spent_seconds / workers,
            workers=workers,
            failures=tuple(
                f"the sample of {title} failed: {samples.failed[name]}"
                for name, title in names.items()
                if name in samples.failed
            ),
            **fields,
        )

    @property
    @abstractmethod
    def contents(self) -> str:
        """The output in words: `3 images of 1 video`."""

    @property
    @abstractmethod
    def size_basis(self) -> str:
        """Basis of the estimated size, in words."""
