"""Baseline loops for `headrace extract features`, and their model.

python -m benchmarks.feature_loops LOOP WEIGHTS RATE FOLDER VIDEO...

`bare`: decoding and the model, nothing else. PyAV decodes on all cores; the selected frames run
through the model in batches of one video.

`one_by_one`: the method of v-iashin/video_features, not its code. FFmpeg re-encodes a video at the
requested rate, OpenCV reads that file, and frames run through the model one by one, which is its
default batch size.

Both process videos one after another and write one file of features for each.
"""

import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torchvision.models import MobileNet_V2_Weights, mobilenet_v2
from torchvision.transforms import v2

NAME = "mobilenet_v2"
WIDTH = 1280
"""Values of a feature, which is the input of the classifier."""


def write_weights(path: Path) -> None:
    """Write random weights; their values do not affect the time."""
    torch.manual_seed(0)
    torch.save(mobilenet_v2(weights=None).state_dict(), path)


def main() -> None:
    """Run a loop; arguments: loop, weights, frames per second, output folder, videos."""
    loop, weights, rate, out, *videos = sys.argv[1:]
    frames_of, batch_size = {"bare": (wanted_frames, 16), "one_by_one": (encoded_frames, 1)}[loop]
    model = mobilenet_v2(weights=None)
    model.load_state_dict(torch.load(weights, weights_only=True))
    model.classifier = torch.nn.Identity()  # float32 [N, 1280], its input
    model.eval()
    with torch.inference_mode():
        for number, video in enumerate(videos):
            frames, features = frames_of(Path(video), int(rate)), []
            while batch := list(islice(frames, batch_size)):
                pictures = torch.stack(batch) if batch_size > 1 else batch[0].unsqueeze(0)
                features.append(model(TRANSFORM(pictures)).numpy())
            np.save(Path(out) / f"{number:03d}.npy", np.concatenate(features))


def wanted_frames(video: Path, rate: int) -> Iterator[torch.Tensor]:
    """Yield the frames shown at each multiple of 1 / `rate` seconds, uint8 [3, H, W]."""
    import av

    from benchmarks.bench_extract import wanted

    selected = set(wanted(video, "fps", rate))
    with av.open(str(video)) as container:
        container.streams.video[0].thread_type = "AUTO"
        for index, frame in enumerate(container.decode(video=0)):
            if index in selected:
                yield torch.from_numpy(frame.to_ndarray(format="rgb24")).permute(2, 0, 1)


def encoded_frames(video: Path, rate: int) -> Iterator[torch.Tensor]:
    """Yield the frames of a re-encoded video, uint8 [3, H, W]."""
    import cv2

    with TemporaryDirectory() as folder:
        encoded = str(Path(folder) / "encoded.mp4")
        command = ["ffmpeg", "-hide_banner", "-loglevel", "panic", "-y", "-i", str(video)]
        command += ["-filter:v", f"fps=fps={rate}", encoded]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        capture = cv2.VideoCapture(encoded)
        while (read := capture.read())[0]:
            yield torch.from_numpy(cv2.cvtColor(read[1], cv2.COLOR_BGR2RGB)).permute(2, 0, 1)
        capture.release()


_PRESET = MobileNet_V2_Weights.DEFAULT.transforms()
TRANSFORM = v2.Compose(
    [
        v2.Resize(_PRESET.resize_size, interpolation=_PRESET.interpolation, antialias=True),
        v2.CenterCrop(_PRESET.crop_size),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(_PRESET.mean, _PRESET.std),
    ]
)
"""uint8 [N, 3, H, W] → float32 [N, 3, 224, 224], like headrace's level `medium`: it resizes uint8.
torchvision's preset resizes float32, which takes longer."""

if __name__ == "__main__":
    main()
