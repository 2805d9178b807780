"""The videos of a run, indexed before its first frame."""

from collections.abc import Sequence

from headrace.decode.index_store import IndexStore
from headrace.decode.indexing import scan_ahead
from headrace.decode.protocol import OnError
from headrace.errors import MediaError
from headrace.video.image_sequence import Rate, source_at
from headrace.video.stream_index import StreamIndex


def open_videos(
    sources: Sequence[str],
    on_error: OnError,
    store: IndexStore | None,
    *,
    rate: Rate | None = None,
) -> tuple[tuple[StreamIndex, ...], tuple[str, ...]]:
    """Return the indexes of the videos, and a sentence for each that was left out, or is faulty.

    With a rate, sources are pictures in order.

    Raises:
        MediaError: one cannot be opened as video and `on_error` is `raise`, or none can.
        ConfigError: the rate is none.
    """
    indexes, notes = [], []
    first: MediaError | None = None
    videos = [source_at(source, rate=rate) for source in sources]
    open_one = scan_ahead(videos, store or IndexStore(), raises=on_error == "raise")
    for video in videos:
        try:
            index = open_one(video)
        except MediaError as error:
            if on_error == "raise":
                raise
            first = first or error
            notes.append(f"left out: {error}")
        else:
            indexes.append(index)
            notes += [f"{video}: {problem}" for problem in index.problems]
    if first is not None and not indexes:
        raise first
    return tuple(indexes), tuple(notes)
