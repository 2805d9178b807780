"""The indexes of the videos of an extraction; nothing is scanned in this process."""

from collections.abc import Callable, Sequence

from headrace.decode.index_store import IndexStore
from headrace.decode.scanning import scan_in_workers, scan_videos
from headrace.errors import MediaError
from headrace.runtime.child import ChildFunction
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex


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
