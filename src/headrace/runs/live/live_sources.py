"""Sources of a live run, from addresses, at the requested pace."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from headrace.decode.open_decoder import open_index
from headrace.decode.protocol import OnError, check_on_error
from headrace.errors import ConfigError
from headrace.extraction.frame_reader import FrameReader
from headrace.live.address import FileAddress, parse_addresses
from headrace.live.drop_policy import DropPolicy
from headrace.live.live_source import Event, LiveFrame, LiveSource
from headrace.live.open_options import SourceOptions
from headrace.live.realtime_source import RealtimeFile, live_source
from headrace.live.stream_reader import DAMAGED
from headrace.models.catalogue import task_of
from headrace.profiling.session import Pace
from headrace.runs.run_options import FlowOptions, LiveClipOptions, PaceName, RunOptions
from headrace.runtime.stage import DroppedItem
from headrace.runtime.waitable_source import Waiter
from headrace.video.frames import FrameLoss
from headrace.video.image_sequence import Rate
from headrace.video.source import Source

_FILE_BATCH: Final = 8
"""Frames per batch when a file is read."""


class FullSpeedFile:
    """File at full speed: a `LiveSource` without latency."""

    base: Pace = "full_speed"

    def __init__(self, source: Source, on_error: OnError = "raise") -> None:
        """Prepare a file; `on_error` is the handling of damaged frames."""
        self.name = str(source)
        """Path of the file."""
        self._source = source
        self._on_error: OnError = on_error
        self.losses: list[FrameLoss] = []
        """Skipped and concealed frames, in order."""

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None]
    ) -> Iterator[LiveFrame | DroppedItem]:
        """See `LiveSource.frames`.

        Raises:
            DecodeError: a frame is damaged, and `on_error` is `raise`.
        """
        index = open_index(self._source)
        reader = FrameReader(
            [index], batch_size=_FILE_BATCH, on_error=self._on_error, clock=waiter.clock
        )
        self.losses = reader.losses
        next_index = run = 0
        for batch in reader:
            for k in range(len(batch)):
                skipped = int(batch.index[k]) - next_index
                yield from (DroppedItem(DAMAGED) for _ in range(skipped))
                next_index, run = next_index + skipped + 1, run + (skipped > 0)
                yield LiveFrame(
                    pixels=np.ascontiguousarray(batch.frames[k]),
                    source=number,
                    number=int(batch.index[k]),
                    run=run,
                    pts=int(batch.pts[k]),
                    time_base=batch.time_base,
                    arrived_ns=waiter.clock.now_ns(),
                )
        yield from (DroppedItem(DAMAGED) for _ in range(len(index) - next_index))


FileSource = RealtimeFile | FullSpeedFile
"""A file, in real time or at full speed."""


def open_sources(
    texts: Sequence[str],
    pace: PaceName,
    options: SourceOptions | None = None,
    *,
    on_error: OnError = "raise",
    rate: Rate | None = None,
) -> tuple[LiveSource, ...]:
    """Return the sources of addresses, in order. Opens no source.

    Args:
        texts: Addresses: see `parse_addresses`.
        pace: Pace of files; `auto` is full speed if all sources are files, else real time.
        options: Connection options of cameras and network streams.
        on_error: Handling of damaged frames of files; streams always skip them.
        rate: Frames per second, if all sources are image sequences.

    Raises:
        ConfigError: an address is not a source, or does not support the pace.
    """
    check_on_error(on_error)
    addresses = parse_addresses(texts, rate)
    live = [address.name for address in addresses if not isinstance(address, FileAddress)]
    if live and pace == "offline":
        raise ConfigError(
            f"{live[0]} is a live source, which --pace offline cannot read at full speed; leave "
            "out --pace"
        )
    if pace != "realtime" and not live:
        files = [address for address in addresses if isinstance(address, FileAddress)]
        return tuple(FullSpeedFile(file.source, on_error) for file in files)
    if on_error == "conceal":
        raise ConfigError(
            "--on-error conceal is for files at full speed: in real time a concealed frame would "
            "arrive after later frames; give --on-error skip"
        )
    return tuple(live_source(address, options, on_error=on_error) for address in addresses)


def full_speed_files(options: RunOptions) -> tuple[str, ...] | None:
    """Return the paths of the files, if the options need no live run; else None.

    Live sources, real time, clips, a view and `max_seconds` need a live run.

    Raises:
        ConfigError: an address is not a source; the model does not exist; overload options are
            given for files at full speed.
    """
    flow, addresses = options.flow, parse_addresses(options.input.sources, options.input.rate)
    files = [address.name for address in addresses if isinstance(address, FileAddress)]
    if len(files) < len(addresses) or flow.pace == "realtime":
        return None
    drop_policy_of(flow, is_live=False)
    has_clips = task_of(options.compute.model_name) == "video" or options.clips != LiveClipOptions()
    needs_live_run = has_clips or flow.max_seconds is not None or flow.view != "none"
    return None if needs_live_run else tuple(files)


def drop_policy_of(flow: FlowOptions, *, is_live: bool) -> DropPolicy:
    """Return the drop policy of the options.

    Raises:
        ConfigError: options contradict each other.
    """
    return DropPolicy.from_name(
        flow.overload,
        is_live=is_live,
        queue=flow.queue,
        max_staleness_seconds=flow.max_staleness_seconds,
    )


def latency_base(sources: Sequence[LiveSource]) -> Pace:
    """Return the start of latency, equal for all sources.

    Raises:
        ConfigError: it differs between the sources.
    """
    bases = {source.base for source in sources}
    if len(bases) > 1:
        raise ConfigError(
            "latency must have the same start for all sources, got "
            f"{' and '.join(sorted(bases))}; run files and cameras separately"
        )
    return bases.pop()
