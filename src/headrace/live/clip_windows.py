"""Clips of live frames: per source, never across a gap."""

from dataclasses import dataclass

from headrace.errors import ConfigError
from headrace.live.live_source import LiveFrame
from headrace.runtime.grouping import SlidingWindows
from headrace.runtime.item import Item
from headrace.units import check_integers


@dataclass(frozen=True, kw_only=True)
class ClipWindow:
    """Frames of a clip, and start of the next one."""

    num_frames: int
    """Frames of a clip."""
    stride: int = 1
    """1 means consecutive frames."""
    hop: int | None = None
    """Frames from the start of a clip to that of the next; None: clips do not overlap."""

    def __post_init__(self) -> None:
        check_integers(1, clip_len=self.num_frames, clip_stride=self.stride, clip_hop=self.hop)

    def windows(self) -> SlidingWindows[LiveFrame]:
        """Return a new grouping of frames into clips, for any number of sources.

        Frames of an incomplete clip, before a gap and at the end, are dropped.
        """
        return SlidingWindows(
            length=self.num_frames,
            stride=self.stride,
            hop=self.hop,
            key=lambda item: item.value.source,
            breaks=is_gap,
            rest="drop",
        )


def clip_window_of(num_frames: int | None, *, stride: int, hop: int | None) -> ClipWindow | None:
    """Return the window for clips of `num_frames`; None for a model of single frames.

    Raises:
        ConfigError: clip options are given for a model of single frames; a number is below 1.
    """
    if num_frames is not None:
        return ClipWindow(num_frames=num_frames, stride=stride, hop=hop)
    if stride != 1 or hop is not None:
        raise ConfigError(
            "clip_stride and clip_hop are for clips, and the model takes single frames; leave them "
            "out, or give a video model such as r3d_18, or clip_len with a callable of your own"
        )
    return None


def is_gap(before: Item[LiveFrame], item: Item[LiveFrame]) -> bool:
    """Return whether there is a gap or a change of size between two frames of a source."""
    old, new = before.value, item.value
    return (
        new.run != old.run or new.number != old.number + 1 or new.pixels.shape != old.pixels.shape
    )
