"""What a loader of camera windows did."""

from dataclasses import dataclass

from headrace.training.statistics import LoaderStatistics


@dataclass(frozen=True, kw_only=True)
class CameraWindowStatistics(LoaderStatistics):
    """What a loader of camera windows did; `frames_delivered` has neither of the two below."""

    frames_missing: int
    """Pictures that a camera has no frame for: black."""
    frames_lost: int
    """Pictures that could not be decoded: black, with `on_error="mask"`."""
