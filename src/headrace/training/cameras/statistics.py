"""What a camera loader did."""

from dataclasses import dataclass

from headrace.training.statistics import DeliveryStatistics


@dataclass(frozen=True, kw_only=True)
class CameraStatistics(DeliveryStatistics):
    """What a camera loader did; `amplification` is 1 where each frame is decoded once."""

    frames_missing: int
    """Pictures that a camera has no frame for: black, or another moment's."""
    frames_lost: int
    """Pictures that could not be decoded."""
    frames_surplus: int
    """Frames of a clip beyond the end of its reference, where `sync` is `index`."""
    moments_dropped: int
    """Of an epoch: those that a camera has no frame for, where these are to be dropped; also of
    clips that are left out, as none of their moments has a frame of every camera."""
    clips_left_out: int
    """Clips that cannot be read, or have no moment left."""
    moments_empty: int = 0
    """Of slots that had nothing left to read, where `tail` is `pad`."""
    moments_repeated: int = 0
    """Read again to fill batches, where `tail` is `refill`."""
    moments_cut: int = 0
    """Not read in the epochs that ended, as not all slots had as many, where `tail` is `drop`."""
    cameras_missing: int = 0
    """Cameras that a clip has no file of, or none that can be opened, and that are masked."""
