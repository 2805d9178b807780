"""Parallel scan of many videos in worker processes.

Python parses packets under the interpreter's lock, so two threads help
(`benchmarks/bench_cores.py`), and more do not. A process takes 0.4 s to start, so processes start
only if many videos remain.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import open_index
from headrace.errors import BackendError, MediaError, OpenError, StageError
from headrace.runtime.child_process import ChildFunction, Json
from headrace.runtime.clock import SYSTEM_CLOCK, Clock, processor_ns
from headrace.runtime.processor_affinity import available_cores
from headrace.runtime.worker_pool import PoolTask, iter_chunks, run_chunks
from headrace.video.image_sequence import rate_of, source_at
from headrace.video.source import Source
from headrace.video.stream_index import StreamIndex

OnScanned = Callable[[str, int, int], None]
"""Called with a name, the number of scanned videos, and the total."""

_BAD: Final = "bad"
"""Message of a video without an index."""
_UNSTORED: Final = "unkept"
"""Message of an index that was not stored."""


class _StopScanError(Exception):
    """Further scanning ahead is useless."""


def scan_videos(argument: Json, send: Callable[[Json], None]) -> Json:
    """Scan videos into the index store until all are claimed: a `ChildFunction`."""
    assert isinstance(argument, dict)
    store = IndexStore(Path(str(argument["store"])))
    for reporter in iter_chunks(argument, send):
        assert isinstance(reporter.payload, dict)
        stream = reporter.payload["stream"]
        rate = reporter.payload["rate"]
        source = source_at(
            str(reporter.payload["path"]),
            stream=stream if isinstance(stream, int | str) else None,
            rate=None if rate is None else str(rate),
        )
        try:
            index = store.verify(source) if argument["verify"] else store.load(source)
        except MediaError:
            # Opening the video later raises the same error.
            reporter.send(_BAD)
            continue
        if not is_stored(index):
            reporter.send(_UNSTORED)
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
    """Scan videos into the store in workers; return the errors of videos that killed two workers.

    Stops early if the store cannot be written, or at the first error with `raises`.

    Args:
        sources: Files, without duplicates.
        store: The index store.
        workers: Number of processes.
        stall_seconds: Time limit of one scan.
        raises: Whether to stop at the first video without an index.
        verify: Whether to scan by decoding everything, as `IndexStore.verify`.
        on_scanned: Called for each scanned video.
        function: The function of each worker.
        clock: Clock of the time limits.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    named = {f"{number:06d}": source for number, source in enumerate(sources)}
    count = iter(range(1, len(named) + 1))

    def on_message(worker: str, chunk: str, message: Json) -> None:
        if message == _UNSTORED or raises:
            raise _StopScanError

    payloads: dict[str, Json] = {name: _task_of(source) for name, source in named.items()}
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
                payloads,
                on_message=on_message,
                on_done=lambda name: on_scanned(named[name].path.name, next(count), len(named)),
                clock=clock,
            )
        except _StopScanError:
            return {}
    if outcome.is_interrupted:
        raise KeyboardInterrupt
    return {named[name]: _scan_error(named[name], why) for name, why in outcome.poisoned.items()}


def is_stored(index: StreamIndex) -> bool:
    """Return whether an index is stored."""
    return index.store_path is not None and index.store_path.is_file()


def _task_of(source: Source) -> dict[str, Json]:
    return {"path": str(source.path), "stream": source.stream, "rate": rate_of(source)}


def _scan_error(source: Source, reason: str) -> OpenError:
    return OpenError(
        f"cannot open {source}: {reason}; leave it out, or copy it again", source=str(source)
    )


OpenIndex = Callable[[Source], StreamIndex]
"""Returns the index of a source, or raises its error."""

_START_SECONDS: Final = 0.4
"""Measured start-up time of a process. This process scans for as long before any other starts."""
MAX_WORKERS: Final = 16
"""Maximum number of worker processes. A core scans some 0.7 GB/s, and few disks supply 16
cores; a process takes some 80 MB."""
_SCAN_SECONDS: Final = 86_400.0
"""Time limit of one scan, a day: a huge file on a slow network must pass."""


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
    """Look up the indexes of many videos, and scan new ones; return a function that opens each.

        open_one = scan_ahead(sources, store, raises=True)
        indexes = [open_one(source) for source in sources]

    The function raises as `IndexStore.load` does, and OpenError for a video that killed two
    workers. Order and first error are the same as if each video were opened in turn. A known video
    takes 0.5 ms. Scans in this process until workers are worth their start-up.

    Args:
        sources: The videos; only plain files are scanned ahead.
        store: The index store.
        raises: Whether to stop scanning at the first error.
        verify: Whether to scan all again by decoding everything, as `IndexStore.verify`.
        holds: Whether to keep indexes in memory; else they are read again when opened.
        rank: Rank of this process among the processes that open the same videos now. Each starts
            at another video, and reuses the others' scans if they share a store.
        ranks: Number of these processes, which share the cores.
        on_scanned: Called for each video that is looked up or scanned.
        function: The function of each worker.
        clock: Clock that measures the scans.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    # Other kinds of source may have state that a worker does not receive.
    plain = [source for source in dict.fromkeys(sources) if type(source) is Source]
    results = _ScanResults(store, holds, len(plain), on_scanned)
    new = plain if verify else _unknown(plain, store, results, raises=raises)
    start = len(new) * rank // ranks
    scan = store.verify if verify else store.load if ranks > 1 else store.scan
    rest, workers = _scan_here(new[start:] + new[:start], scan, results, ranks, raises, clock)
    if not workers:
        return results.open
    with suppress(StageError, BackendError):  # then videos are scanned when opened
        results.by_source |= scan_in_workers(
            rest,
            store,
            workers=workers,
            stall_seconds=_SCAN_SECONDS,
            raises=raises,
            verify=verify,
            on_scanned=lambda name, *_: results.count(name),
            function=function,
            clock=clock,
        )
    return results.open


def useful_workers(
    wall_ns: int, processor_ns: int, done: int, left: int, cores: int, limit: int = MAX_WORKERS
) -> int:
    """Return how many processes should scan the rest; 1: continue in this process.

    Args:
        wall_ns: Wall time of the scans so far.
        processor_ns: Processor time of them; if scans wait for a disk, more run at a time.
        done: Number of scanned videos.
        left: Number of videos to scan.
        cores: Usable cores.
        limit: Maximum number of processes.
    """
    seconds = wall_ns / 1e9
    if not done or seconds < _START_SECONDS:
        return 1
    remaining_seconds = seconds / done * left
    if remaining_seconds < 2 * _START_SECONDS:
        return 1
    at_once = int(cores * max(1.0, wall_ns / max(1, processor_ns)))
    return min(limit, at_once, left, ceil(remaining_seconds / _START_SECONDS))


class _ScanResults:
    """Indexes and errors found ahead, in this process and in workers."""

    def __init__(self, store: IndexStore, holds: bool, of: int, on_scanned: OnScanned) -> None:
        self.by_source: dict[Source, StreamIndex | MediaError] = {}
        self._store, self._holds = store, holds
        self._done, self._of, self._on_scanned = 0, of, on_scanned

    def open(self, source: Source) -> StreamIndex:
        """Return the index of a source, scanned ahead or read now; or raise its error."""
        known = self.by_source.get(source) if type(source) is Source else None
        if isinstance(known, MediaError):
            raise known
        return open_index(source, self._store) if known is None else known

    def count(self, name: str) -> None:
        """Count a finished video."""
        self._done += 1
        self._on_scanned(name, self._done, self._of)

    def add(self, source: Source, result: StreamIndex | MediaError) -> None:
        """Keep an error, and an index unless it can be read again from the store."""
        if self._holds or isinstance(result, MediaError) or not is_stored(result):
            self.by_source[source] = result
        self.count(source.path.name)


def _unknown(
    sources: Sequence[Source], store: IndexStore, results: _ScanResults, *, raises: bool
) -> list[Source]:
    """Return the sources without a stored index; add the others to `results`."""
    unknown = []
    for source in sources:
        try:
            index = store.find(source)
        except MediaError as error:
            results.add(source, error)
            if raises:
                break
        else:
            if index is None:
                unknown.append(source)
            else:
                results.add(source, index)
    return unknown


def _scan_here(
    sources: Sequence[Source],
    scan: OpenIndex,
    results: _ScanResults,
    ranks: int,
    raises: bool,
    clock: Clock,
) -> tuple[Sequence[Source], int]:
    """Scan into `results` until all is done, the first error occurs, or workers are useful.

    Returns the rest, and the number of processes that should scan it.
    """
    cores, limit = (max(1, count // ranks) for count in (len(available_cores()), MAX_WORKERS))
    start_ns, start_processor_ns = clock.now_ns(), processor_ns()
    for done, source in enumerate(sources):
        spent = clock.now_ns() - start_ns, processor_ns() - start_processor_ns
        workers = useful_workers(*spent, done, len(sources) - done, cores, limit)
        if workers > 1:
            return sources[done:], workers
        try:
            results.add(source, scan(source))
        except MediaError as error:
            results.add(source, error)
            if raises:
                break
    return (), 0
