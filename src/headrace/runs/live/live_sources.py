"""Sources of a live run, from their addresses, at the pace that was asked for."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from headrace.decode.open_decoder import open_index
from headrace.decode.protocol import OnError, check_on_error
from headrace.errors import ConfigError
from headrace.extraction.frame_reader import FrameReader
from headrace.live.address import FileAddress, addresses_of
from headrace.live.drop_policy import DropPolicy
from headrace.live.open_source import live_source
from headrace.live.realtime_file import RealtimeFile
from headrace.live.source import Event, LiveFrame, LiveSource
from headrace.live.source_options import SourceOptions
from headrace.live.stream_reader import DAMAGED
from headrace.models.catalogue import task_of
from headrace.profiling.session import Pace
from headrace.runs.run_options import FlowOptions, LiveClipOptions, PaceName, RunOptions
from headrace.runtime.item import DroppedItem
from headrace.runtime.waitable_source import Waiter
from headrace.video.frame_loss import FrameLoss
from headrace.video.image_sequence import Rate
from headrace.video.source import Source

_FILE_BATCH: Final = 8
"""Frames that a file is read ahead by at a time."""


class FullSpeedFile:
    """A file, read as fast as its frames are taken: a `LiveSource` without a latency."""

    def __init__(self, source: Source, on_error: OnError = "raise") -> None:
        """Open nothing yet; damaged frames do what `on_error` says."""
        self._source = source
        self._on_error: OnError = on_error
        self.losses: list[FrameLoss] = []
        """Frames that were left out or concealed, in order."""

    @property
    def name(self) -> str:
        """The path."""
        return str(self._source)

    @property
    def base(self) -> Pace:
        """At full speed there is no arrival that latency could count from."""
        return "full_speed"

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
        place = run = 0
        for batch in reader:
            for k in range(len(batch)):
                left_out = int(batch.index[k]) - place
                yield from (DroppedItem(DAMAGED) for _ in range(left_out))
                place, run = place + left_out + 1, run + (left_out > 0)
                yield LiveFrame(
                    pixels=np.ascontiguousarray(batch.frames[k]),
                    source=number,
                    number=int(batch.index[k]),
                    run=run,
                    pts=int(batch.pts[k]),
                    time_base=batch.time_base,
                    arrived_ns=waiter.clock.now_ns(),
                )
        yield from (DroppedItem(DAMAGED) for _ in range(len(index) - place))


FileSource = RealtimeFile | FullSpeedFile
"""A source that is a file, at its own pace or at full speed."""


def open_sources(
    texts: Sequence[str],
    pace: PaceName,
    options: SourceOptions | None = None,
    *,
    on_error: OnError = "raise",
    rate: Rate | None = None,
) -> tuple[LiveSource, ...]:
    """Return the sources that addresses name, in order; nothing is opened yet.

    Args:
        texts: As the user typed them: see `addresses_of`.
        pace: Of files; `auto` reads them as fast as it can, but beside something that comes as it
            comes as they would be played.
        options: How cameras and network streams are connected to.
        on_error: What damaged frames of files do. Those of a stream are always left out.
        rate: Pictures a second, where all are pictures in order.

    Raises:
        ConfigError: nothing can be read there, or not at this pace.
    """
    check_on_error(on_error)
    addresses = addresses_of(texts, rate)
    endless = [each.name for each in addresses if not isinstance(each, FileAddress)]
    if endless and pace == "offline":
        raise ConfigError(
            f"{endless[0]} comes as it comes, and --pace offline asks for it as fast as it can; "
            "leave out --pace"
        )
    if pace != "realtime" and not endless:
        files = [each for each in addresses if isinstance(each, FileAddress)]
        return tuple(FullSpeedFile(each.source, on_error) for each in files)
    if on_error == "conceal":
        raise ConfigError(
            "--on-error conceal is for files at full speed: in real time a damaged frame would be "
            "shown behind those that follow it; give --on-error skip"
        )
    return tuple(live_source(address, options, on_error=on_error) for address in addresses)


def plain_files(options: RunOptions) -> tuple[str, ...] | None:
    """Return the paths where all are files, at full speed, frame by frame, not watched; else None.

    Raises:
        ConfigError: a source names nothing; torchvision has no such model; frames that will not be
            too many are to be dropped.
    """
    flow, addresses = options.flow, addresses_of(options.input.sources, options.input.rate)
    files = [each.name for each in addresses if isinstance(each, FileAddress)]
    if len(files) < len(addresses) or flow.pace == "realtime":
        return None
    chosen_overload(flow, is_live=False)
    has_clips = task_of(options.compute.model_name) == "video" or options.clips != LiveClipOptions()
    is_plain = not has_clips and flow.max_seconds is None and flow.view == "none"
    return tuple(files) if is_plain else None


def chosen_overload(flow: FlowOptions, *, is_live: bool) -> DropPolicy:
    """Return what is done when frames are too many.

    Raises:
        ConfigError: the options do not go together.
    """
    return DropPolicy.chosen(
        flow.overload,
        is_live=is_live,
        queue=flow.queue,
        max_staleness_seconds=flow.max_staleness_seconds,
    )


def base_of(sources: Sequence[LiveSource]) -> Pace:
    """Return what latency counts from; one thing for all, since figures of two do not mix.

    Raises:
        ConfigError: the sources have several.
    """
    bases = {source.base for source in sources}
    if len(bases) > 1:
        raise ConfigError(
            f"sources of one run need one base of latency, got {' and '.join(sorted(bases))}; "
            "run files and cameras apart"
        )
    return bases.pop()
