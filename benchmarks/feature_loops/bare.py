"""Decoding and the model, and nothing else: python -m benchmarks.feature_loops.bare ...

The least that gives the features: PyAV decodes with all cores, the frames that are wanted go
through the model in batches of one video, and a file of features is written for each.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.bench_extract import wanted
from benchmarks.feature_loops import TRANSFORM, pooled

_BATCH = 16


def main() -> None:
    """Arguments: weights, frames per second, output folder, videos."""
    weights, rate, out, *videos = sys.argv[1:]
    model = pooled(Path(weights))
    with torch.inference_mode():
        for number, video in enumerate(videos):
            found = np.concatenate([*_features(model, Path(video), int(rate))])
            np.save(Path(out) / f"{number:03d}.npy", found)


def _features(model: torch.nn.Module, video: Path, rate: int) -> Iterator[NDArray[np.float32]]:
    asked, batch = set(wanted(video, "fps", rate)), []
    with av.open(str(video)) as container:
        container.streams.video[0].thread_type = "AUTO"
        for index, frame in enumerate(container.decode(video=0)):
            if index in asked:
                batch.append(torch.from_numpy(frame.to_ndarray(format="rgb24")).permute(2, 0, 1))
            if len(batch) == _BATCH:
                yield model(TRANSFORM(torch.stack(batch))).numpy()
                batch = []
    if batch:
        yield model(TRANSFORM(torch.stack(batch))).numpy()


if __name__ == "__main__":
    main()
