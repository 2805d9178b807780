"""The indexes of many videos: new ones are scanned by processes, many at a time.

Threads would not do where there are many cores: packets are looked at in Python, under the
interpreter's lock. Two threads do help (`benchmarks/bench_cores.py`), and a process takes 0.4 s to
begin; so processes begin only where many videos are left.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import open_index
from headrace.errors import MediaError, OpenError, StageError
from headrace.runtime.affinity import available_cores
from headrace.runtime.child_spec import ChildFunction, Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock, processor_ns
from headrace.runtime.worker_pool import PoolTask, run_chunks
from headrace.runtime.worker_protocol import iter_chunks
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
    for speaker in iter_chunks(argument, send):
        assert isinstance(speaker.payload, dict)
        stream = speaker.payload["stream"]
        rate = speaker.payload["rate"]
        source = source_at(
            str(speaker.payload["path"]),
            stream=stream if isinstance(stream, int | str) else None,
            rate=None if rate is None else str(rate),
        )
        try:
            index = store.verify(source) if argument["verify"] else store.load(source)
        except MediaError:
            # Found again at once, and with its own words, by whoever asks for the index.
            speaker.send(_BAD)
            continue
        if not is_kept(index):
            speaker.send(_UNKEPT)
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

    def on_message(worker: str, chunk: str, said: Json) -> None:
        if said == _UNKEPT or raises:
            raise _EnoughError

    told: dict[str, Json] = {name: _told(source) for name, source in named.items()}
    with TemporaryDirectory(prefix="headrace-") as claims:
        work = PoolTask(
            function=function,
            argument={"store": str(store.folder.absolute()), "verify": verify},
            claims=Path(claims),
            workers=workers,
            stall_seconds=stall_seconds,
        )
        try:
            outcome = run_chunks(
                work,
                told,
                on_message=on_message,
                on_done=lambda name: on_scanned(named[name].path.name, next(count), len(named)),
                clock=clock,
            )
        except _EnoughError:
            return {}
    if outcome.is_interrupted:
        raise KeyboardInterrupt
    return {named[name]: _ended(named[name], why) for name, why in outcome.poisoned.items()}


def is_kept(index: StreamIndex) -> bool:
    """Return whether an index lies in a store."""
    return index.kept_in is not None and index.kept_in.is_file()


def _told(source: Source) -> dict[str, Json]:
    return {"path": str(source.path), "stream": source.stream, "rate": rate_of(source)}


def _ended(source: Source, why: str) -> OpenError:
    return OpenError(
        f"cannot open {source}: {why}; leave it out, or copy it again", source=str(source)
    )


OpenIndex = Callable[[Source], StreamIndex]
"""Returns the index of a source, or raises why it has none."""

_START_SECONDS: Final = 0.4
"""Measured: until a process can scan. As long is scanned here before any is begun."""
MOST_WORKERS: Final = 16
"""A core scans some 0.7 GB/s: few disks give as much as 16 take. A process takes some 80 MB."""
_SCAN_SECONDS: Final = 86_400.0
"""A day: a huge file behind a slow network is no bad one."""


def scan_ahead(
    sources: Iterable[Source],
    store: IndexStore,
    *,
    raises: bool,
    verify: bool = False,
    holds: bool = True,
    rank: int = 0,
    ranks: int = 1,
    on_scanned: OnScanned = lambda name, done, of: None,
    function: ChildFunction = scan_videos,
    clock: Clock = SYSTEM_CLOCK,
) -> OpenIndex:
    """Look up the indexes of many videos, and scan those that are new; return what opens each.

        open_one = scan_ahead(sources, store, raises=True)
        indexes = [open_one(source) for source in sources]

    What opens one raises as `IndexStore.load` does, and OpenError for a video that ended two
    processes; so the order and the first error are the caller's, as if each were opened when its
    turn comes. Takes 0.5 ms for a known video. Scans here until it is clear that processes pay.

    Args:
        sources: What will be asked for; all but plain files are left to be opened then.
        store: Where indexes are kept.
        raises: Whether the first error will be the end: nothing is scanned behind one.
        verify: Whether to scan all anew by decoding everything, as `IndexStore.verify`.
        holds: Whether to hold what is found; else it is read again when it is asked for.
        rank: This process among those that open the same videos now. Each begins elsewhere, and so
            finds scanned what the others did, where they share a store.
        ranks: Their number: they share the cores.
        on_scanned: Called for each video that is looked up or scanned.
        function: What workers run.
        clock: Measures.

    Raises:
        KeyboardInterrupt: somebody pressed Ctrl-C.
    """
    # Of other kinds of source there may be facts that a worker is not told.
    asked = [each for each in dict.fromkeys(sources) if type(each) is Source]
    found = _Found(holds, _Progress(len(asked), on_scanned))
    left = asked if verify else _unknown(asked, store, found, raises=raises)
    turn = len(left) * rank // ranks
    scan = store.verify if verify else store.load if ranks > 1 else store.scan
    here = _scan_here(left[turn:] + left[:turn], scan, found, ranks, raises, clock)
    if not here.workers:
        return _opening(found.those, store)
    with suppress(StageError):  # no process can be begun here: each is scanned when it is asked for
        found.those |= scan_in_workers(
            here.left,
            store,
            workers=here.workers,
            stall_seconds=_SCAN_SECONDS,
            raises=raises,
            verify=verify,
            on_scanned=lambda name, *_: found.show(name),
            function=function,
            clock=clock,
        )
    return _opening(found.those, store)


def workers_that_pay(
    wall_ns: int, processor_ns: int, done: int, left: int, cores: int, most: int = MOST_WORKERS
) -> int:
    """Return how many processes had best scan what is left; 1: go on here.

    Args:
        wall_ns: Time that scanning here took.
        processor_ns: Processor time of it; where scans wait for a disk, more go on at a time.
        done: Videos scanned here.
        left: Videos to scan.
        cores: That may be used.
        most: Processes, however many would pay.
    """
    seconds = wall_ns / 1e9
    if not done or seconds < _START_SECONDS:
        return 1
    to_come = seconds / done * left
    if to_come < 2 * _START_SECONDS:
        return 1
    at_once = int(cores * max(1.0, wall_ns / max(1, processor_ns)))
    return min(most, at_once, left, ceil(to_come / _START_SECONDS))


class _Progress:
    """Counts what is done, whoever did it."""

    def __init__(self, of: int, on_scanned: OnScanned) -> None:
        self._done, self._of, self._on_scanned = 0, of, on_scanned

    def __call__(self, name: str) -> None:
        self._done += 1
        self._on_scanned(name, self._done, self._of)


class _Found:
    """What was found out before it is asked for."""

    def __init__(self, holds: bool, show: _Progress) -> None:
        self.those: dict[Source, StreamIndex | MediaError] = {}
        self.show = show
        self._holds = holds

    def add(self, source: Source, found: StreamIndex | MediaError) -> None:
        """Hold an index, unless it can be read again; and an error in any case."""
        if self._holds or isinstance(found, MediaError) or not is_kept(found):
            self.those[source] = found
        self.show(source.path.name)


def _unknown(
    sources: Sequence[Source], store: IndexStore, found: _Found, *, raises: bool
) -> list[Source]:
    """Return those that the store does not know; add the others to what was found."""
    unknown = []
    for source in sources:
        try:
            index = store.find(source)
        except MediaError as error:
            found.add(source, error)
            if raises:
                break
        else:
            if index is None:
                unknown.append(source)
            else:
                found.add(source, index)
    return unknown


@dataclass(frozen=True, kw_only=True)
class _Here:
    """What is left when this process has scanned as much as pays."""

    left: Sequence[Source] = ()
    workers: int = 0
    """That had best scan it."""


def _scan_here(
    sources: Sequence[Source],
    scan: OpenIndex,
    found: _Found,
    ranks: int,
    raises: bool,
    clock: Clock,
) -> _Here:
    """Scan into `found` until all is done, the first error came, or workers pay."""
    cores, most = (max(1, each // ranks) for each in (len(available_cores()), MOST_WORKERS))
    began, began_processor = clock.now_ns(), processor_ns()
    for number, source in enumerate(sources):
        spent = clock.now_ns() - began, processor_ns() - began_processor
        workers = workers_that_pay(*spent, number, len(sources) - number, cores, most)
        if workers > 1:
            return _Here(left=sources[number:], workers=workers)
        try:
            found.add(source, scan(source))
        except MediaError as error:
            found.add(source, error)
            if raises:
                break
    return _Here()


def _opening(found: dict[Source, StreamIndex | MediaError], store: IndexStore) -> OpenIndex:
    def open_one(source: Source) -> StreamIndex:
        known = found.get(source) if type(source) is Source else None
        if isinstance(known, MediaError):
            raise known
        return open_index(source, store) if known is None else known

    return open_one
