"""What a dataset gives for one index: dicts that a DataLoader collates."""

from typing import Any, TypedDict

import torch


class FrameItem(TypedDict):
    """One frame and where it is from."""

    frame: Any
    """uint8 [3, H, W] in [0, 255], RGB, upright; or what `transform` made of it."""
    row: int
    """Place of the row in the manifest that was given; of a list of videos, the same as `video`.
    The other columns of the row have their own names beside it: `item["label"]`."""
    video: int
    """Place of the video in the list that was given, or in `manifest.videos`."""
    index: int
    """Place of the frame in presentation order."""
    pts_seconds: float
    """Presentation time of the frame."""
    is_concealed: bool
    """It is damaged, and shown as FFmpeg shows it: only with `on_error="conceal"`."""


class ClipItem(TypedDict):
    """A clip of T frames and where it is from."""

    frames: Any
    """uint8 [T, 3, H, W] in [0, 255], RGB, upright, colour innermost in memory; or what `transform`
    made of it."""
    row: int
    """Place of the row in the manifest that was given; of a list of videos, the same as `video`.
    The other columns of the row have their own names beside it: `item["label"]`."""
    video: int
    """Place of the video in the list that was given, or in `manifest.videos`."""
    index: torch.Tensor
    """int64 [T]: place of each frame in presentation order."""
    pts_seconds: torch.Tensor
    """float64 [T]: presentation time of each frame."""
    is_concealed: torch.Tensor
    """bool [T]: as `FrameItem` has it."""
