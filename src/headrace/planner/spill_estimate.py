"""Spill estimate: disk space and rate if all frames are decoded once and stored packed."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from headrace.planner.decode_speed import MeasuredSpeed
from headrace.sampling.population import Population

_READING_SECONDS = 0.0001
"""Seconds to read a packed frame from the page cache or a local SSD; assumed, not measured."""


@dataclass(frozen=True, kw_only=True)
class SpillEstimate:
    """Store of all frames of a set, for batches of random frames."""

    codec: str
    bytes_per_frame: int
    """Bytes of a packed frame."""
    disk_bytes: int
    """Bytes of all frames of the set."""
    free_bytes: int | None
    """Free bytes of the disk; None: no folder."""
    first_epoch: float
    """Mean frames per second of the first epoch: every GOP is decoded once and stored."""
    later_epochs: float
    """Frames per second of later epochs: frames are read and unpacked."""

    @property
    def fits(self) -> bool:
        """Whether the disk has room for the set; True without a folder."""
        return self.free_bytes is None or self.disk_bytes <= self.free_bytes


def estimate_spill(
    population: Population, decoding: MeasuredSpeed, folder: str | None
) -> SpillEstimate | None:
    """Return the estimate for the codec with the smallest packets, which stores use.

    None: no codec packs the frames.
    """
    if not decoding.packed:
        return None
    packed, speed = min(decoding.packed, key=lambda packed: packed.bytes_per_frame), decoding.speed
    reading = packed.unpack_seconds + _READING_SECONDS
    storing = (
        speed.seconds_per_seek * len(population.gop_lengths) / population.num_frames
        + speed.seconds_per_decoded
        + speed.seconds_per_delivered
        + packed.pack_seconds
    )
    return SpillEstimate(
        codec=packed.codec,
        bytes_per_frame=packed.bytes_per_frame,
        disk_bytes=packed.bytes_per_frame * population.num_frames,
        free_bytes=None if folder is None else _free_bytes(Path(folder)),
        first_epoch=speed.workers / (storing + reading),
        later_epochs=speed.workers / reading,
    )


def _free_bytes(folder: Path) -> int:
    """Return the free bytes of the disk of a folder that may not exist yet."""
    folder = folder.expanduser().absolute()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free
