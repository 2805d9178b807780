"""Datasets written by lerobot's own writer, with a codec and a distance of keyframes of choice."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def created(
    folder: Path, fps: int, features: Mapping[str, Any], codec: str, gop: int, **options: Any
) -> Iterator[Any]:
    """Provide a new dataset, to add frames and episodes to; afterwards it is whole.

    Args:
        folder: Where it is written; it must not exist.
        fps: Frames per second.
        features: Features as lerobot names them.
        codec: Encoder of pictures: "libsvtav1" or "h264".
        gop: Frames from one keyframe to the next.
        options: Of `LeRobotDataset.create`.
    """
    from lerobot.datasets import video_utils
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    # lerobot joins files of episodes with B-frames with gaps, and refuses their frames itself.
    more = {"bf": "0"} if codec == "h264" else {}
    own = getattr(video_utils, "_get_codec_options", None)
    if own is not None:  # before lerobot 0.6, keyframes are no option
        options["vcodec"] = codec
        video_utils._get_codec_options = lambda codec, *_, **__: own(codec, g=gop) | more
    else:
        from lerobot.configs.video import RGBEncoderConfig

        options["rgb_encoder"] = RGBEncoderConfig(vcodec=codec, g=gop, extra_options=more)
    try:
        dataset = LeRobotDataset.create("headrace/drawn", fps, {**features}, root=folder, **options)
        yield dataset
        dataset.finalize()
    finally:
        if own is not None:
            video_utils._get_codec_options = own
