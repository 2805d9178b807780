"""Scanning videos into the index store by processes: one that dies ends no other."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from headrace.decode.index_store import IndexStore
from headrace.errors import MediaError, OpenError
from headrace.runtime.child import ChildFunction, Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.speaker import chunks_to_do
from headrace.runtime.workers import Work, work_through
from headrace.video.image_sequence import rate_of, source_at
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

OnScanned = Callable[[str, int, int], None]
"""Called with a name, how many are done and of how many."""

_BAD: Final = "bad"
_UNKEPT: Final = "unkept"


class _EnoughError(Exception):
    """Scanning ahead is of no more use."""


def scan_videos(argument: Json, send: Callable[[Json], None]) -> Json:
    """Scan videos into the index store until none is left: a `ChildFunction`."""
    assert isinstance(argument, dict)
    store = IndexStore(Path(str(argument["store"])))
    for speaker in chunks_to_do(argument, send):
        assert isinstance(speaker.told, dict)
        stream = speaker.told["stream"]
        rate = speaker.told["rate"]
        source = source_at(
            str(speaker.told["path"]),
            stream=stream if isinstance(stream, int | str) else None,
            rate=None if rate is None else str(rate),
        )
        try:
            index = store.verify(source) if argument["verify"] else store.load(source)
        except MediaError:
            # Found again at once, and with its own words, by whoever asks for the index.
            speaker.say(_BAD)
            continue
        if not is_kept(index):
            speaker.say(_UNKEPT)
    return None


def scan_in_workers(
    sources: Sequence[Source],
    store: IndexStore,
    *,
    workers: int,
    stall_seconds: float,
    raises: bool = False,
    verify: bool = False,
    on_scanned: OnScanned = lambda name, done, of: None,
    function: ChildFunction = scan_videos,
    clock: Clock = SYSTEM_CLOCK,
) -> dict[Source, StreamIndex | MediaError]:
    """Have workers scan videos into the store; return an error for each that ended two of them.

    Ends early where nothing is won: the store cannot be written, or the first error is the end.

    Args:
        sources: Files, none twice.
        store: Where indexes are kept.
        workers: Processes.
        stall_seconds: How long one scan may take.
        raises: Whether the first video without an index is the end.
        verify: Whether to scan by decoding everything, as `IndexStore.verify`.
        on_scanned: Called for each video that is scanned.
        function: What each worker runs.
        clock: Measures.

    Raises:
        KeyboardInterrupt: somebody pressed Ctrl-C.
    """
    named = {f"{number:06d}": source for number, source in enumerate(sources)}
    count = iter(range(1, len(named) + 1))

    def on_said(worker: str, chunk: str, said: Json) -> None:
        if said == _UNKEPT or raises:
            raise _EnoughError

    told: dict[str, Json] = {name: _told(source) for name, source in named.items()}
    with TemporaryDirectory(prefix="headrace-") as claims:
        work = Work(
            function=function,
            argument={"store": str(store.folder.absolute()), "verify": verify},
            claims=Path(claims),
            workers=workers,
            stall_seconds=stall_seconds,
        )
        try:
            outcome = work_through(
                work,
                told,
                on_said=on_said,
                on_done=lambda name: on_scanned(named[name].path.name, next(count), len(named)),
                clock=clock,
            )
        except _EnoughError:
            return {}
    if outcome.is_interrupted:
        raise KeyboardInterrupt
    return {named[name]: _ended(named[name], why) for name, why in outcome.fallen.items()}


def is_kept(index: StreamIndex) -> bool:
    """Return whether an index lies in a store."""
    return index.kept_in is not None and index.kept_in.is_file()


def _told(source: Source) -> dict[str, Json]:
    return {"path": str(source.path), "stream": source.stream, "rate": rate_of(source)}


def _ended(source: Source, why: str) -> OpenError:
    return OpenError(
        f"cannot open {source}: {why}; leave it out, or copy it again", source=str(source)
    )
