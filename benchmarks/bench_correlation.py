"""How strongly are the features of neighboring frames correlated?

python -m benchmarks.bench_correlation --weights mobilenet_v2-b0353104.pth
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.kit import SIZE, Benchmark
from benchmarks.media import DEFAULT_ROOT, NUM_FRAMES, describe, paths, recipe
from benchmarks.record import Result, origin
from headrace import open_index, read_frames
from headrace.models.feature_extractor import FeatureExtractor
from headrace.models.load import with_weights
from headrace.preprocess.levels import build_preprocess
from headrace.profiling.provenance import Record
from headrace.sampling.bias import burst_correlation

MODEL, LAYER = "mobilenet_v2", "features"
DISTANCES = (1, 2, 4, 8, 16, 32, 64)
RUNS = (2, 4, 8, 16, 32)
"""Frames per burst."""


class Correlation(Record):
    """Correlation of the features within bursts."""

    frames_per_burst: int
    distance: int
    """Stride of the frames of a burst; 1: consecutive."""
    within: Literal["video", "gop"]
    """Unit that contains each burst."""
    bursts: int
    """Number of bursts, which are disjoint."""
    rho: float
    low: float
    """Lower end of the 95 % interval."""
    high: float


class CorrelationResult(Result):
    """Correlation of pairs by distance, and of bursts of consecutive frames by length."""

    correlations: tuple[Correlation, ...]


def measure(
    *, media: Path = DEFAULT_ROOT, count: int = 40, weights: str = "DEFAULT"
) -> Iterator[CorrelationResult]:
    """Compute the features of every frame and their correlation.

    Args:
        media: folder of the videos
        count: videos of kind web
        weights: checkpoint of MobileNetV2
    """
    files = paths(media, "web", count)
    features = np.concatenate(list(features_of(files, weights)))
    videos = [np.array([NUM_FRAMES])] * len(files)
    gops = [open_index(path).gop_lengths for path in files]
    about = "1280, global mean of the last layer before the classifier"
    yield CorrelationResult(
        provenance=origin(model=MODEL, weights=Path(weights).name, features=about, size=SIZE),
        media={"recipe": recipe(), "kinds": {"web": describe(files)}},
        correlations=(
            *[correlation(features, videos, "video", 2, distance) for distance in DISTANCES],
            *[correlation(features, gops, "gop", frames, 1) for frames in RUNS],
        ),
    )


def text(result: CorrelationResult) -> str:
    """Return a line per correlation."""
    return "\n".join(
        f"{row.frames_per_burst} frames of a {row.within}, stride {row.distance}: {row.rho:.3f} "
        f"({row.low:.3f} to {row.high:.3f}), {row.bursts} bursts"
        for row in result.correlations
    )


def features_of(files: Sequence[Path], weights: str) -> Iterator[NDArray[np.float64]]:
    """Yield the features of every frame in order, float64 [N, 1280] per batch."""
    built = with_weights(MODEL, weights)
    model = FeatureExtractor(built.module, LAYER).eval()
    preprocess = build_preprocess("medium", built.input)
    for batch in read_frames(files, size=SIZE):
        with torch.inference_mode():
            maps = model(preprocess(batch.frames))
        yield maps.mean(dim=(2, 3)).double().numpy()


def correlation(
    features: NDArray[np.float64],
    stretches: Sequence[NDArray[np.int64]],
    within: Literal["video", "gop"],
    frames_per_burst: int,
    distance: int,
) -> Correlation:
    """Return ρ of bursts that fill each stretch from its start; the remainder is dropped."""
    burst, video = cut(stretches, frames_per_burst, distance)
    kept = burst >= 0
    rho = burst_correlation(features[kept], burst[kept], video[kept])
    about: Any = {"frames_per_burst": frames_per_burst, "distance": distance, "within": within}
    about["bursts"] = len(np.unique(burst[kept]))
    return Correlation(rho=rho.value, low=rho.low, high=rho.high, **about)


def cut(
    stretches: Sequence[NDArray[np.int64]], frames_per_burst: int, distance: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the burst and the video of every frame, int64 [frames]; burst -1: remainder.

    `stretches` has the lengths of the stretches of each video.
    """
    span = frames_per_burst * distance
    bursts, videos, count = [], [], 0
    for video, lengths in enumerate(stretches):
        for length in lengths.tolist():
            block, offset = np.divmod(np.arange(length), span)
            number = count + block * distance + offset % distance
            bursts.append(np.where(block < length // span, number, -1))
            videos.append(np.full(length, video))
            count += length // span * distance
    return np.concatenate(bursts), np.concatenate(videos)


BENCHMARK = Benchmark("correlation", __doc__, measure, text)

if __name__ == "__main__":
    BENCHMARK.main()
