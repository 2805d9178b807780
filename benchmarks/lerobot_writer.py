"""Datasets written by lerobot's writer, with a choice of codec and GOP length."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def created(
    folder: Path, fps: int, features: Mapping[str, Any], codec: str, gop: int, **options: Any
) -> Iterator[Any]:
    """Yield a new dataset for frames and episodes, and finalize it after the block.

    Args:
        folder: Folder of the dataset; must not exist.
        fps: Frames per second.
        features: Features, by lerobot's names.
        codec: Video encoder: "libsvtav1" or "h264".
        gop: Frames from one keyframe to the next.
        options: Further options of `LeRobotDataset.create`.
    """
    from lerobot.datasets import video_utils
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    # Without B-frames: lerobot concatenates their files with gaps, and then refuses the frames.
    more = {"bf": "0"} if codec == "h264" else {}
    original = getattr(video_utils, "_get_codec_options", None)
    if original is not None:  # lerobot before 0.6 has no option for the GOP length
        options["vcodec"] = codec
        video_utils._get_codec_options = lambda codec, *_, **__: original(codec, g=gop) | more
    else:
        from lerobot.configs.video import RGBEncoderConfig

        options["rgb_encoder"] = RGBEncoderConfig(vcodec=codec, g=gop, extra_options=more)
    try:
        dataset = LeRobotDataset.create("headrace/drawn", fps, {**features}, root=folder, **options)
        yield dataset
        dataset.finalize()
    finally:
        if original is not None:
            video_utils._get_codec_options = original
