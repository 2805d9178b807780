"""The videos of a run, indexed before its first frame."""

from collections.abc import Sequence

from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_index
from headrace.decode.protocol import OnError
from headrace.errors import MediaError
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex


def open_videos(
    sources: Sequence[str], on_error: OnError, store: IndexStore | None
) -> tuple[tuple[StreamIndex, ...], tuple[str, ...]]:
    """Return the indexes of the videos, and a sentence for each that was left out.

    Raises:
        MediaError: one cannot be opened as video and `on_error` is `raise`, or none can.
    """
    indexes, notes = [], []
    first: MediaError | None = None
    for source in sources:
        try:
            indexes.append(open_index(Source.of(source), store))
        except MediaError as error:
            if on_error == "raise":
                raise
            first = first or error
            notes.append(f"left out: {error}")
    if first is not None and not indexes:
        raise first
    return tuple(indexes), tuple(notes)
