"""Values of all kinds of extraction: plan, estimate, progress and result."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.extraction.extraction_options import OutputSpec
from headrace.extraction.journal import JournalEntry, Outcome
from headrace.planning.chunks import Chunk
from headrace.profiling.run_records import Setup
from headrace.profiling.session import Session
from headrace.video.frames import FrameLoss
from headrace.video.stream_index import StreamIndex

Wanted = NDArray[np.int64]


def sample_offsets(total: int, count: int) -> list[int]:
    """Return up to `count` offsets, evenly spread over [0, total), ascending, each once."""
    offsets: list[int] = np.unique(np.linspace(0, total - 1, count).round().astype(int)).tolist()
    return offsets


@dataclass(frozen=True, kw_only=True, eq=False)
class ExtractionPlan:
    """Wanted frames and chunks of an extraction, known before anything is decoded or written."""

    request: OutputSpec
    indexes: dict[int, StreamIndex]
    """Video number in the request → index; without videos that cannot be opened."""
    wanted: dict[int, Wanted]
    """Video number → wanted frames, or the first frame of each clip; int64, ascending."""
    chunks: tuple[Chunk, ...]
    left_out: tuple[FrameLoss, ...] = ()
    """Videos without any output."""
    notes: tuple[str, ...] = ()
    """Decisions, one sentence each."""

    @cached_property
    def total(self) -> int:
        """Number of wanted outputs."""
        return sum(chunk.frames for chunk in self.chunks)

    @cached_property
    def places(self) -> dict[int, int]:
        """Video number in the request → position among the inputs of a session."""
        return {number: position for position, number in enumerate(self.indexes)}

    @cached_property
    def by_name(self) -> Mapping[str, Chunk]:
        """Name of a chunk → the chunk, in order."""
        return {chunk.name: chunk for chunk in self.chunks}

    def sample(self, count: int, chunks: Sequence[Chunk] | None = None) -> list[Chunk]:
        """Return up to `count` chunks, evenly spread over `chunks`, by default the plan's."""
        chunks = self.chunks if chunks is None else chunks
        return [chunks[offset] for offset in sample_offsets(len(chunks), count)]

    def path_of(self, chunk: Chunk) -> str:
        """Return the path of a chunk's video."""
        return self.request.videos[chunk.video].path


@dataclass(frozen=True, kw_only=True)
class Estimate(ABC):
    """Size and time of an extraction that has not run. Each kind adds its own counts."""

    videos: int
    num_bytes: int | None
    """Bytes of the whole output; None if all samples failed."""
    seconds: float | None
    """Wall time of the remaining work, divided among the workers; None: unknown."""
    workers: int

    @abstractmethod
    def lines(self, out: Path) -> Iterator[str]:
        """Yield the text of a dry run, line by line; `out` is the output folder."""

    def problems(self) -> tuple[str, ...]:
        """Return one line for each failed sample."""
        return ()


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Outcomes of all chunks, of this run and earlier ones."""

    done: Mapping[str, Outcome]
    """Name of a finished chunk → its outcome."""
    unfinished: Mapping[str, Outcome] = field(default_factory=dict)
    """Name of an unfinished chunk → outcome so far; if it failed, its remaining frames are lost."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Name of a chunk given up → reason."""
    entries: Mapping[str, JournalEntry] = field(default_factory=dict)
    """Name of a chunk with output → its entry in the journal."""

    @property
    def came(self) -> int:
        """Outputs in the folder."""
        return sum(outcome.came for outcome in (*self.done.values(), *self.unfinished.values()))

    def without(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Return the chunks that are neither finished nor given up."""
        return [chunk for chunk in chunks if chunk.name not in {**self.done, **self.failed}]


@dataclass(frozen=True, kw_only=True)
class KindSummary:
    """Part of a run's record that depends on the kind of extraction."""

    setup: Setup
    outputs: tuple[str, ...]
    """Files in the folder, besides the outputs of chunks."""
    notes: tuple[str, ...] = ()
    """Decisions and events, one sentence each."""


@dataclass(frozen=True, kw_only=True)
class ExtractionResult:
    """Result of an extraction."""

    session: Session
    """Record of this run; its `lost` includes earlier runs."""
    came: int
    """Outputs in the folder now."""
    were_there: int
    """Outputs from earlier runs."""
    wanted: int
    """Wanted outputs of all videos that could be opened."""

    @property
    def is_all(self) -> bool:
        """Whether every wanted output exists, concealed frames included."""
        has_lost_video = any(loss.index is None for loss in self.session.lost)
        is_complete = self.session.outcome == "complete" and not has_lost_video
        return is_complete and self.came == self.wanted


def whole_video(video: int, index: StreamIndex, frames: int) -> Chunk:
    """Return one chunk that covers a video, with `frames` wanted frames."""
    height, width = index.info.upright_size
    return Chunk(
        video=video,
        start=0,
        stop=len(index),
        frames=frames,
        decoded=len(index),
        cost=float(len(index) * height * width),
    )
