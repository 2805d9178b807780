"""What a camera loader did."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CameraStatistics:
    """What a camera loader did so far."""

    frames_delivered: int
    """Pictures, one for each camera of each clip in a batch; those of empty slots not counted."""
    frames_decoded: int
    seeks: int
    opens: int
    bytes_read: int
    frames_missing: int
    """Pictures that a camera has no frame for: black, or another moment's."""
    frames_lost: int
    """Pictures that could not be decoded."""
    frames_surplus: int
    """Frames of a clip that the first camera has no counterpart for, where `sync` is `index`."""
    moments_dropped: int
    """Of an epoch: those that a camera has no frame for, where these are to be dropped."""
    clips_left_out: int
    """Clips that cannot be read, or have no moment left."""
    starved_seconds: float
    """How long the caller waited for batches."""
    blocked_seconds: float
    """How long decoding waited for the caller."""
    moments_empty: int = 0
    """Of slots that had nothing left to read, where `tail` is `pad`."""
    moments_repeated: int = 0
    """Read again to fill batches, where `tail` is `refill`."""
    moments_cut: int = 0
    """Not read in the epochs that ended, as not all slots had as many, where `tail` is `drop`."""
    cameras_missing: int = 0
    """Cameras that a clip has no file of, or none that can be opened, and that are masked."""

    @property
    def decoded_per_delivered(self) -> float:
        """1.0 where each frame is decoded once and delivered."""
        return self.frames_decoded / self.frames_delivered if self.frames_delivered else 0.0
