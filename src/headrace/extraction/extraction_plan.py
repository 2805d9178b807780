"""Plan of an extraction, its videos and their names; estimate, progress and result as values."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from headrace.cached_property import cached_property
from headrace.decode.index_store import IndexStore
from headrace.decode.parallel_scan import scan_in_workers, scan_videos
from headrace.decode.proxies import LIST
from headrace.errors import ConfigError, MediaError
from headrace.extraction.extraction_options import (
    ExtractionOptions,
    OutputSpec,
    RequestedVideo,
    unique_name,
)
from headrace.extraction.journal import JournalEntry, Outcome
from headrace.planning.chunks import Chunk
from headrace.profiling.run_records import Setup
from headrace.profiling.session import Session
from headrace.runtime.child_process import ChildFunction
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.video.frames import FrameLoss
from headrace.video.image_sequence import rate_of, source_at, without_number
from headrace.video.source import ProxySource, Source
from headrace.video.stream_index import StreamIndex

_MAX_NAME_BYTES: Final = 120
"""Max bytes of a video's name; file systems allow 255 bytes for the whole file name."""


def video_names(paths: Sequence[Path]) -> list[str]:
    """Return a unique name for each video: its stem; if not unique, with parent folders, then with
    a number."""
    names = [_shortened(path.stem) for path in paths]
    depth = 1
    deepest = max((len(path.parts) for path in paths), default=0)
    while len(set(names)) < len(names) and depth < deepest:
        depth += 1
        count = Counter(names)
        names = [
            _shortened(_deeper(path, depth)) if count[name] > 1 else name
            for path, name in zip(paths, names, strict=True)
        ]
    unique: dict[str, None] = {}
    for name in names:
        unique[unique_name(name, unique)] = None
    return list(unique)


def _deeper(path: Path, depth: int) -> str:
    """Return `cam1_street` of /data/cam1/street.mp4, for a depth of 2."""
    parts = [part for part in path.parent.parts if part.strip("/")]
    return "_".join([*parts[len(parts) - depth + 1 :], path.stem])


def _shortened(name: str) -> str:
    data = name.encode("utf-8", "surrogateescape")
    if len(data) <= _MAX_NAME_BYTES:
        return name
    return data[-_MAX_NAME_BYTES:].decode("utf-8", "ignore")


def indexes_of(
    sources: Sequence[Source],
    store: IndexStore,
    *,
    workers: int,
    stall_seconds: float,
    on_video: Callable[[str, int, int], None] = lambda name, done, of: None,
    function: ChildFunction = scan_videos,
    clock: Clock = SYSTEM_CLOCK,
) -> dict[Source, StreamIndex | MediaError]:
    """Return the index of each video, or the reason it cannot be opened.

    Videos without a stored index are scanned by worker processes, so that a crash affects only one
    video. Starting a worker takes about 0.4 s, longer than most scans.

    Args:
        sources: Videos without duplicates.
        store: Store of the indexes.
        workers: Worker processes.
        stall_seconds: Max seconds of one scan.
        on_video: Called with a name, the number of indexed videos and their total.
        function: Function of each worker.
        clock: Clock for the time limits.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    results = {source: _index_or_error(store.find, source) for source in sources}
    unindexed = [source for source, result in results.items() if result is None]
    if unindexed:
        results |= scan_in_workers(
            unindexed,
            store,
            workers=workers,
            stall_seconds=stall_seconds,
            on_scanned=on_video,
            function=function,
            clock=clock,
        )
    indexes: dict[Source, StreamIndex | MediaError] = {}
    for position, (source, result) in enumerate(results.items()):
        on_video(source.path.name, position, len(sources))
        index = _index_or_error(store.load, source) if result is None else result
        assert index is not None
        indexes[source] = index
    return indexes


def _index_or_error(
    load: Callable[[Source], StreamIndex | None], source: Source
) -> StreamIndex | MediaError | None:
    try:
        return load(source)
    except MediaError as error:
        return error


@dataclass(frozen=True, kw_only=True, eq=False)
class Videos:
    """Videos of an extraction."""

    asked: tuple[RequestedVideo, ...]
    """In order; a video's number is its position here."""
    indexes: dict[int, StreamIndex]
    """Video number → index; without videos that cannot be opened."""
    left_out: tuple[FrameLoss, ...]
    """Videos that cannot be opened."""
    notes: tuple[str, ...]
    """Decisions, one sentence each."""

    @classmethod
    def of(
        cls,
        options: ExtractionOptions,
        store: IndexStore,
        on_video: Callable[[str, int, int], None] = lambda name, done, of: None,
        before: OutputSpec | None = None,
    ) -> "Videos":
        """Look up the index of every video.

        Cost: reads each new video once, several videos in parallel.

        Args:
            options: Options of the extraction; a path given twice is read once.
            store: Store of the indexes.
            on_video: Called with a name, the number of indexed videos and their total.
            before: Request of earlier runs into the folder. A video of it that could not be opened
                keeps its number if it is no longer requested.

        Raises:
            ConfigError: the rate is not a number above 0, or a source is a proxy.
            MediaError: a video cannot be opened and `on_error` is "raise", or no video can be
                opened.
        """
        paths = dict.fromkeys(map(_original, options.sources))
        duplicates = len(options.sources) - len(paths)
        sources = {source_at(path, rate=options.rate): path for path in _numbered(paths, before)}
        by_source = indexes_of(
            [source for source, path in sources.items() if path in paths],
            store,
            workers=options.processes,
            stall_seconds=options.stall_seconds,
            on_video=on_video,
        )
        indexes = {
            number: index
            for number, source in enumerate(sources)
            if isinstance(index := by_source.get(source), StreamIndex)
        }
        errors = [error for error in by_source.values() if isinstance(error, MediaError)]
        if errors and (options.on_error == "raise" or not indexes):
            raise errors[0]
        return cls(
            asked=_asked(list(sources), indexes),
            indexes=indexes,
            left_out=tuple(
                FrameLoss(source=error.source, index=None, cause=str(error)) for error in errors
            ),
            notes=(f"duplicate paths, each read once: {duplicates}",) if duplicates else (),
        )


def _numbered(paths: dict[Path, None], before: OutputSpec | None) -> list[Path]:
    """Return the requested videos, with unopened ones of the earlier request at their numbers."""
    videos = () if before is None else before.videos
    earlier = [
        path for video in videos if (path := Path(video.path)) in paths or not video.is_known
    ]
    return earlier if [path for path in earlier if path in paths] == [*paths] else [*paths]


def _original(source: str | Source) -> Path:
    """Return the absolute path of a video that is not a proxy."""
    if isinstance(source, ProxySource):
        path = source.proxy
    else:
        path = Path(str(source)).absolute()
        if not (path.parent.parent / LIST).exists():
            return path
    raise ConfigError(f"an extraction reads originals, got the proxy {path}; give its original")


def _asked(sources: list[Source], indexes: dict[int, StreamIndex]) -> tuple[RequestedVideo, ...]:
    names = video_names(
        [
            source.path if rate_of(source) is None else without_number(source.path)
            for source in sources
        ]
    )
    stats = (indexes[n].fingerprint if n in indexes else None for n in range(len(sources)))
    return tuple(
        RequestedVideo(
            name=name,
            path=str(source.path),
            size=None if stat is None else stat.size,
            mtime_ns=None if stat is None else stat.mtime_ns,
            rate=rate_of(source),
        )
        for name, source, stat in zip(names, sources, stats, strict=True)
    )


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
