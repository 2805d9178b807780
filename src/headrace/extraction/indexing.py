"""The indexes of many videos, scanned by workers: one that ends its process ends no other."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_index
from headrace.errors import MediaError, OpenError
from headrace.extraction.speaker import chunks_to_do
from headrace.extraction.workers import Work, work_through
from headrace.runtime.child import ChildFunction, Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex


def scan_videos(argument: Json, send: Callable[[Json], None]) -> Json:
    """Scan videos into the index store until none is left: a `ChildFunction`."""
    assert isinstance(argument, dict)
    store = IndexStore(Path(str(argument["store"])))
    for speaker in chunks_to_do(argument, send):
        try:
            open_index(Source(Path(str(speaker.told))), store)
        except MediaError:
            continue  # found again at once, and with its own words, by whoever asks for the index
    return None


def indexes_of(
    paths: Sequence[Path],
    store: IndexStore,
    *,
    workers: int,
    stall_seconds: float,
    on_video: Callable[[str, int, int], None] = lambda name, done, of: None,
    function: ChildFunction = scan_videos,
    clock: Clock = SYSTEM_CLOCK,
) -> dict[Path, StreamIndex | MediaError]:
    """Return the index of each video, or why it has none.

    Videos that the store does not know are scanned by workers, many at a time; a single one is
    scanned here, since starting a process takes longer than most scans.

    Args:
        paths: Files, none twice.
        store: Where indexes are kept.
        workers: Processes.
        stall_seconds: How long one scan may take.
        on_video: Called with a name, how many are done and of how many.
        function: What each worker runs.
        clock: Measures.

    Raises:
        KeyboardInterrupt: somebody pressed Ctrl-C.
    """
    unknown = [path for path in paths if not _is_known(path, store)]
    fallen: dict[str, str] = {}
    if len(unknown) > 1:
        fallen = _scanned(unknown, store, workers, stall_seconds, on_video, function, clock)
    found: dict[Path, StreamIndex | MediaError] = {}
    for number, path in enumerate(paths):
        on_video(path.name, number, len(paths))
        if str(path) in fallen:
            why = f"cannot open {path}: {fallen[str(path)]}; leave it out, or copy it again"
            found[path] = OpenError(why, source=str(path))
            continue
        try:
            found[path] = open_index(Source(path), store)
        except MediaError as error:
            found[path] = error
    return found


def _is_known(path: Path, store: IndexStore) -> bool:
    try:
        return store.find(Source(path)) is not None
    except MediaError:
        return True  # there is nothing to scan


def _scanned(
    paths: Sequence[Path],
    store: IndexStore,
    workers: int,
    stall_seconds: float,
    on_video: Callable[[str, int, int], None],
    function: ChildFunction,
    clock: Clock,
) -> dict[str, str]:
    """Have workers scan videos; return those that ended them, with how."""
    done = 0

    def on_done(path: str) -> None:
        nonlocal done
        done += 1
        on_video(Path(path).name, done, len(paths))

    with TemporaryDirectory(prefix="headrace-") as claims:
        work = Work(
            function=function,
            argument={"store": str(store.folder.absolute())},
            claims=Path(claims),
            workers=workers,
            stall_seconds=stall_seconds,
        )
        told: dict[str, Json] = {f"{number:06d}": str(path) for number, path in enumerate(paths)}
        outcome = work_through(
            work, told, on_done=lambda name: on_done(str(told[name])), clock=clock
        )
    if outcome.is_interrupted:
        raise KeyboardInterrupt
    return {str(told[name]): why for name, why in outcome.fallen.items()}
