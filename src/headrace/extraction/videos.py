"""The videos that an extraction is asked for: their names, and the frames that they have."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import open_index
from headrace.decode.parallel_scan import scan_in_workers, scan_videos
from headrace.errors import MediaError, OpenError
from headrace.extraction.extraction_options import RequestedVideo
from headrace.extraction.image_encoder import ImageEncoder
from headrace.runtime.child_spec import ChildFunction
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.video.frame_loss import FrameLoss
from headrace.video.image_sequence import Rate, rate_of, source_at, without_number
from headrace.video.source import FileStat, Source
from headrace.video.stream_index import StreamIndex
from headrace.video.timebase import to_seconds

_LONGEST: Final = 120
"""Bytes of a video's name; a file system takes 255 in all."""
_DIGITS: Final = 6


def video_names(paths: Sequence[Path]) -> list[str]:
    """Return a name for each video, no two alike: its stem, or more of its path where that is
    not enough, or a number behind it."""
    known = [_shortened(path.stem) for path in paths]
    depth = 1
    deepest = max((len(path.parts) for path in paths), default=0)
    while len(set(known)) < len(known) and depth < deepest:
        depth += 1
        count = Counter(known)
        known = [
            _shortened(_deeper(path, depth)) if count[name] > 1 else name
            for path, name in zip(paths, known, strict=True)
        ]
    names: dict[str, None] = {}
    for name in known:
        number, free = 1, name
        while free in names:
            number += 1
            free = f"{name}-{number}"
        names[free] = None
    return list(names)


def picture_name(
    prefix: str, video: str, index: int, seconds: Fraction, num_frames: int, suffix: str
) -> str:
    """`shot_street_000120_4.004s.png`: sorted by name they are in order of the video."""
    digits = max(_DIGITS, len(str(num_frames - 1)))
    return f"{prefix}{video}_{index:0{digits}d}_{float(seconds):.3f}s.{suffix}"


def frame_file(pictures: ImageEncoder, video: str, index: StreamIndex, number: int) -> str:
    """Return what the picture of frame `number` of a video is called; `video` is its name."""
    seconds = to_seconds(int(index.pts[number]), index.info.time_base)
    return picture_name(pictures.prefix, video, number, seconds, len(index), pictures.format)


def _deeper(path: Path, depth: int) -> str:
    """`cam1_street` of /data/cam1/street.mp4, for a depth of 2."""
    parts = [part for part in path.parent.parts if part.strip("/")]
    return "_".join([*parts[len(parts) - depth + 1 :], path.stem])


def _shortened(name: str) -> str:
    data = name.encode("utf-8", "surrogateescape")
    if len(data) <= _LONGEST:
        return name
    return data[-_LONGEST:].decode("utf-8", "ignore")


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
    """Return the index of each video, or why it has none.

    Videos that the store does not know are scanned by workers, many at a time, so that one that
    ends its process ends no other. Starting one takes longer than most scans: some 0.4 s.

    Args:
        sources: None twice.
        store: Where indexes are kept.
        workers: Processes.
        stall_seconds: How long one scan may take.
        on_video: Called with a name, how many are done and of how many.
        function: What each worker runs.
        clock: Measures.

    Raises:
        KeyboardInterrupt: somebody pressed Ctrl-C.
    """
    found: dict[Source, StreamIndex | MediaError | None] = {}
    for each in sources:
        found[each] = _known(each, store)
    unknown = [source for source, known in found.items() if known is None]
    if unknown:
        found |= scan_in_workers(
            unknown,
            store,
            workers=workers,
            stall_seconds=stall_seconds,
            on_scanned=on_video,
            function=function,
            clock=clock,
        )
    indexes: dict[Source, StreamIndex | MediaError] = {}
    for number, (source, known) in enumerate(found.items()):
        on_video(source.path.name, number, len(sources))
        indexes[source] = _loaded(source, store) if known is None else known
    return indexes


def _known(source: Source, store: IndexStore) -> StreamIndex | MediaError | None:
    try:
        return store.find(source)
    except MediaError as error:
        return error  # there is nothing to scan


def _loaded(source: Source, store: IndexStore) -> StreamIndex | MediaError:
    try:
        return store.load(source)
    except MediaError as error:
        return error


@dataclass(frozen=True, kw_only=True, eq=False)
class Videos:
    """What there is to extract from."""

    asked: tuple[RequestedVideo, ...]
    """In order; a number of a video is a place here."""
    indexes: dict[int, StreamIndex]
    """Number of a video → its frames; without those that cannot be opened."""
    left_out: tuple[FrameLoss, ...]
    """Videos that cannot be opened."""
    notes: tuple[str, ...]
    """What was decided, in words."""

    @classmethod
    def of(
        cls,
        sources: Sequence[str],
        store: IndexStore,
        *,
        workers: int,
        stall_seconds: float,
        raises: bool,
        on_video: Callable[[str, int, int], None],
        rate: Rate | None = None,
    ) -> "Videos":
        """Look up the index of every video.

        Cost: a video that was not seen before is read once, by workers where there are several.

        Args:
            sources: Paths; one that is named twice is taken once.
            store: Where indexes are kept.
            workers: Processes.
            stall_seconds: How long one scan may take.
            raises: Whether a video that cannot be opened is an error.
            on_video: Called with a name, how many are done and of how many.
            rate: Pictures a second, where all are pictures in order.

        Raises:
            ConfigError: the rate is none.
            MediaError: a video cannot be opened, and this is to be an error, or none can.
        """
        paths = list(dict.fromkeys(Path(source).absolute() for source in sources))
        twice = len(sources) - len(paths)
        found = indexes_of(
            [source_at(path, rate=rate) for path in paths],
            store,
            workers=workers,
            stall_seconds=stall_seconds,
            on_video=on_video,
        )
        indexes = {n: i for n, i in enumerate(found.values()) if isinstance(i, StreamIndex)}
        errors = [each for each in found.values() if isinstance(each, MediaError)]
        if errors and (raises or not indexes):
            raise errors[0]
        return cls(
            asked=_asked(list(found), indexes),
            indexes=indexes,
            left_out=tuple(
                FrameLoss(source=error.source, index=None, cause=str(error)) for error in errors
            ),
            notes=(f"{twice} of the paths named a video again; each is read once",)
            if twice
            else (),
        )


def reopened(asked: RequestedVideo, store: IndexStore) -> StreamIndex:
    """Return the frames of a video, as they were when the extraction was planned.

    Raises:
        MediaError: it cannot be opened any more, or has changed.
    """
    index = open_index(source_at(asked.path, rate=asked.rate), store)
    if index.fingerprint != FileStat(asked.size or 0, asked.mtime_ns or 0):
        raise OpenError(
            f"{asked.path} has changed since the extraction was planned; "
            "extract it into another folder",
            source=asked.path,
        )
    return index


def _asked(sources: list[Source], indexes: dict[int, StreamIndex]) -> tuple[RequestedVideo, ...]:
    names = video_names(
        [each.path if rate_of(each) is None else without_number(each.path) for each in sources]
    )
    return tuple(
        RequestedVideo(
            name=name,
            path=str(source.path),
            size=indexes[number].fingerprint.size if number in indexes else None,
            mtime_ns=indexes[number].fingerprint.mtime_ns if number in indexes else None,
            rate=rate_of(source),
        )
        for number, (name, source) in enumerate(zip(names, sources, strict=True))
    )
