"""The videos that an extraction is asked for, with the frames of those that can be opened."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_index
from headrace.errors import MediaError, OpenError
from headrace.extraction.indexing import indexes_of
from headrace.extraction.names import video_names
from headrace.extraction.request import AskedVideo
from headrace.video.image_sequence import Rate, rate_of, source_at, without_number
from headrace.video.loss import Loss
from headrace.video.source import Fingerprint, Source
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True, eq=False)
class Videos:
    """What there is to extract from."""

    asked: tuple[AskedVideo, ...]
    """In order; a number of a video is a place here."""
    indexes: dict[int, StreamIndex]
    """Number of a video → its frames; without those that cannot be opened."""
    left_out: tuple[Loss, ...]
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
                Loss(source=error.source, index=None, cause=str(error)) for error in errors
            ),
            notes=(f"{twice} of the paths named a video again; each is read once",)
            if twice
            else (),
        )


def reopened(asked: AskedVideo, store: IndexStore) -> StreamIndex:
    """Return the frames of a video, as they were when the extraction was planned.

    Raises:
        MediaError: it cannot be opened any more, or has changed.
    """
    index = open_index(source_at(asked.path, rate=asked.rate), store)
    if index.fingerprint != Fingerprint(asked.size or 0, asked.mtime_ns or 0):
        raise OpenError(
            f"{asked.path} has changed since the extraction was planned; "
            "extract it into another folder",
            source=asked.path,
        )
    return index


def _asked(sources: list[Source], indexes: dict[int, StreamIndex]) -> tuple[AskedVideo, ...]:
    names = video_names(
        [each.path if rate_of(each) is None else without_number(each.path) for each in sources]
    )
    return tuple(
        AskedVideo(
            name=name,
            path=str(source.path),
            size=indexes[number].fingerprint.size if number in indexes else None,
            mtime_ns=indexes[number].fingerprint.mtime_ns if number in indexes else None,
            rate=rate_of(source),
        )
        for number, (name, source) in enumerate(zip(names, sources, strict=True))
    )
