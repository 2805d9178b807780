"""Videos of an extraction: names and indexes."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from headrace.decode.index_store import IndexStore
from headrace.decode.parallel_scan import scan_in_workers, scan_videos
from headrace.errors import MediaError
from headrace.extraction.extraction_options import ExtractionOptions, RequestedVideo, unique_name
from headrace.extraction.image_encoder import ImageEncoder
from headrace.runtime.child_process import ChildFunction
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.video.frames import FrameLoss
from headrace.video.image_sequence import rate_of, source_at, without_number
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex
from headrace.video.timebase import to_seconds

_MAX_NAME_BYTES: Final = 120
"""Max bytes of a video's name; file systems allow 255 bytes for the whole file name."""
_DIGITS: Final = 6
"""Min digits of a frame index in a file name."""


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


def image_name(
    prefix: str, video: str, index: int, seconds: Fraction, num_frames: int, suffix: str
) -> str:
    """Return `shot_street_000120_4.004s.png`; names sort in presentation order."""
    digits = max(_DIGITS, len(str(num_frames - 1)))
    return f"{prefix}{video}_{index:0{digits}d}_{float(seconds):.3f}s.{suffix}"


def frame_file(pictures: ImageEncoder, video: str, index: StreamIndex, frame_index: int) -> str:
    """Return the file name of frame `frame_index` of a video called `video`."""
    seconds = to_seconds(int(index.pts[frame_index]), index.info.time_base)
    return image_name(pictures.prefix, video, frame_index, seconds, len(index), pictures.format)


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
    ) -> "Videos":
        """Look up the index of every video.

        Cost: reads each new video once, several videos in parallel.

        Args:
            options: Options of the extraction; a path given twice is read once.
            store: Store of the indexes.
            on_video: Called with a name, the number of indexed videos and their total.

        Raises:
            ConfigError: the rate is not a number above 0.
            MediaError: a video cannot be opened and `on_error` is "raise", or no video can be
                opened.
        """
        paths = list(dict.fromkeys(Path(source).absolute() for source in options.sources))
        duplicates = len(options.sources) - len(paths)
        by_source = indexes_of(
            [source_at(path, rate=options.rate) for path in paths],
            store,
            workers=options.processes,
            stall_seconds=options.stall_seconds,
            on_video=on_video,
        )
        indexes = {
            number: index
            for number, index in enumerate(by_source.values())
            if isinstance(index, StreamIndex)
        }
        errors = [error for error in by_source.values() if isinstance(error, MediaError)]
        if errors and (options.on_error == "raise" or not indexes):
            raise errors[0]
        return cls(
            asked=_asked(list(by_source), indexes),
            indexes=indexes,
            left_out=tuple(
                FrameLoss(source=error.source, index=None, cause=str(error)) for error in errors
            ),
            notes=(f"duplicate paths, each read once: {duplicates}",) if duplicates else (),
        )


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
