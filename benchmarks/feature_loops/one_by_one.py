"""Features as v-iashin/video_features takes them: python -m benchmarks.feature_loops.one_by_one ...

One video after the other: FFmpeg encodes it anew at the wanted rate, OpenCV reads that file, each
frame goes through the model by itself (its batch size, unless it is asked for another), and a file
of features is written. A small loop in its way, not its code.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.feature_loops import TRANSFORM, pooled


def main() -> None:
    """Arguments: weights, frames per second, output folder, videos."""
    weights, rate, out, *videos = sys.argv[1:]
    model = pooled(Path(weights))
    with torch.inference_mode(), TemporaryDirectory() as folder:
        for number, video in enumerate(videos):
            encoded = Path(folder) / f"{number:03d}.mp4"
            _encode(video, rate, encoded)
            found = [model(TRANSFORM(frame.unsqueeze(0))).numpy() for frame in _frames(encoded)]
            np.save(Path(out) / f"{number:03d}.npy", np.concatenate(found))


def _encode(video: str, rate: str, encoded: Path) -> None:
    filters = ["-filter:v", f"fps=fps={rate}"]
    command = ["ffmpeg", "-hide_banner", "-loglevel", "panic", "-y", "-i", video, *filters]
    subprocess.run([*command, str(encoded)], check=True, stdin=subprocess.DEVNULL)


def _frames(video: Path) -> Iterator[torch.Tensor]:
    capture = cv2.VideoCapture(str(video))
    while True:
        is_there, frame = capture.read()
        if not is_there:
            break
        rgb: NDArray[np.uint8] = cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)
        yield torch.from_numpy(rgb).permute(2, 0, 1)
    capture.release()


if __name__ == "__main__":
    main()
