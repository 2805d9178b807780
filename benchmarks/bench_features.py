"""How long does `headrace extract features` take, compared with bare loops of decoder and model?

python -m benchmarks.bench_features --count 2 --repeats 1     # a first look
python -m benchmarks.bench_features                           # the full run, 8 minutes

Whole commands are timed, from their start, on videos without a stored index. `headrace extract
features` is compared with a bare loop, and with a loop like v-iashin/video_features, which
re-encodes the videos and so has other frames. With each cache the command runs twice; the second
run finds the results of the first. Redis runs if redis-server is installed. Some variants also run
on a quarter of the videos: the difference excludes start-up.
"""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.feature_loops import NAME, WIDTH, write_weights
from benchmarks.kit import CORES, Benchmark, begin, tried
from benchmarks.markdown import DISTURBED, machine, rendered, spread
from benchmarks.media import DEFAULT_ROOT, paths
from benchmarks.record import Repeat, Row, TimedResult, ratios
from benchmarks.worker import Meter, ask_worker, headrace_command
from headrace import read_features

QUARTER = "a quarter"
VARIANTS = {
    "bare": "bare loop: decode + model",
    "bare, a quarter": "the same, a quarter of the videos",
    "one_by_one": "one video at a time, re-encoded, batch size 1",
    "none": "**headrace**, no cache",
    "none, a quarter": "**headrace**, no cache, a quarter of the videos",
    "sqlite": "**headrace**, SQLite, first run",
    "sqlite, again": "**headrace**, SQLite, second run",
    "redis": "**headrace**, Redis, first run",
    "redis, again": "**headrace**, Redis, second run",
}
"""Loops, and headrace's caches in the first and the second run; some on a quarter of the videos."""
LOOPS = ("bare", "one_by_one")
NEAR = 0.999
"""Min cosine of a feature with the bare loop's; RGB conversions may differ by a gray level."""
BAR, CACHE_BAR = 0.95, 20.0
"""Required speedups: over the bare loop for additional videos; of the second run from SQLite."""
Ask = Callable[..., dict[str, Any]]


class FeaturesResult(TimedResult):
    """All variants, and the comparison of their features."""

    least_cosine: float
    """Min cosine of headrace's features with the bare loop's."""

    def ratios(self, name: str, other: str) -> list[float]:
        """Return the speedup of a variant over another in each round; [] if one failed."""
        return ratios(self.row(other), self.row(name), "wall_seconds")

    def further(self) -> list[float]:
        """Return the speedup over the bare loop for additional videos, in each round."""
        rows = map(self.row, ("bare", "bare, a quarter", "none", "none, a quarter"))
        seconds = [row.values("wall_seconds") if row else [] for row in rows]
        return [
            (bare - first) / (ours - few) for bare, first, ours, few in zip(*seconds, strict=False)
        ]


def measure(
    *, media: Path = DEFAULT_ROOT, count: int = 12, rate: int = 15, repeats: int = 3
) -> Iterator[FeaturesResult]:
    """Compare features, then time all variants.

    Args:
        media: folder of the videos
        count: videos of 10 s
        rate: features per second of video
        repeats: repeats per variant
    """
    files = [str(path.resolve()) for path in paths(media, "web", count)]
    with TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.pth"
        write_weights(weights)
        parameters = {"paths": files, "weights": str(weights), "rate": rate}
        least = least_cosine(parameters, Path(folder))
        if least < NEAR:
            raise SystemExit(f"features differ from the bare loop's: min cosine {least:.4f}")
        rows = contest(parameters, repeats)
    source = begin(count=count, rate=rate, repeats=repeats, cores=CORES)
    yield FeaturesResult(**source, rows=tuple(rows), least_cosine=least)


def least_cosine(parameters: Mapping[str, Any], folder: Path, ask: Ask = ask_worker) -> float:
    """Return the min cosine of headrace's features with the bare loop's; 0 if counts differ."""
    features = {}
    for way in ("bare", "headrace"):
        path = folder / f"{way}.npy"
        with TemporaryDirectory() as cache:
            ask({**_request(parameters, way), "kept": str(path)}, cache=Path(cache))
        features[way] = np.load(path)
    if len({array.shape for array in features.values()}) > 1:
        return 0.0
    lengths = [np.linalg.norm(array, axis=1) for array in features.values()]
    products = (features["bare"] * features["headrace"]).sum(1)
    return float((products / (lengths[0] * lengths[1])).min())


def contest(parameters: Mapping[str, Any], repeats: int, ask: Ask = ask_worker) -> list[Row]:
    """Return each variant's row; repeats are interleaved."""
    rows = {name: Row(name=name) for name in VARIANTS}
    for _ in range(repeats):
        for first in ("bare", "one_by_one", "none", "sqlite", "redis"):
            with TemporaryDirectory() as folder, _cache(first) as cache:
                request = _request(parameters, first if first in LOOPS else "headrace", cache)

                def take(row: Row, request: Any = request, folder: Any = folder) -> Any:
                    paths = request["paths"]
                    if row.name.endswith(QUARTER):
                        paths = paths[: max(1, len(paths) // 4)]
                    return row.timed(Repeat(**ask(request | {"paths": paths}, cache=Path(folder))))

                for name, row in rows.items():
                    if name.partition(",")[0] == first and row.is_sound:
                        rows[name] = tried(row, take)
    return list(rows.values())


def _request(parameters: Mapping[str, Any], way: str, cache: str = "none") -> dict[str, Any]:
    return {"case": "bench_features", "way": way, "cache": cache, "kept": None, **parameters}


@contextmanager
def _cache(name: str) -> Iterator[str]:
    """Yield the value of `--cache`; for Redis, a server runs during the block."""
    if name != "redis":
        yield name if name == "sqlite" else "none"
        return
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    words += ["--maxmemory", "512mb", "--maxmemory-policy", "allkeys-lru"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            next((line for line in server.stdout if "Ready to accept" in line), None)
            yield f"redis://127.0.0.1:{port}"
        finally:
            server.terminate()


def answer(
    *, way: str, paths: list[str], weights: str, rate: int, cache: str, kept: str | None
) -> dict[str, Any]:
    """Time a command, `headrace` or a loop; with `kept`, write all features to that file.

    Indexes and cache are in the XDG_CACHE_HOME of this process.
    """
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        if way == "headrace":
            words = ("--model-name", NAME, "--weights", weights, "--fps", rate, "--cache", cache)
            command = headrace_command("extract", "features", *paths, "-o", out, *words, "--json")
        else:
            out.mkdir()
            command = [sys.executable, "-m", "benchmarks.feature_loops"]
            command += [way, weights, str(rate), str(out), *paths]
        meter = Meter()
        subprocess.run(command, check=True, capture_output=True)
        times = meter.read()
        features = features_in(out)
        if kept:
            np.save(kept, features)
        return {**times, "frames": len(features)}


def features_in(out: Path) -> NDArray[np.float32]:
    """Return all features of a folder, float32 [N, 1280], in the order of videos and frames."""
    if arrays := sorted(out.glob("*.npy")):
        return np.concatenate([np.load(path) for path in arrays])
    videos = read_features(out).values()
    return np.concatenate([video.features.numpy() for video in videos]).reshape(-1, WIDTH)


def features(result: FeaturesResult) -> str:
    """Return a line per variant, then whether the required speedups are reached."""

    def speedup(row: Row, other: str) -> str:
        return "" if row.name.endswith(QUARTER) else spread(result.ratios(row.name, other), ".2f")

    parameters = result.provenance.configuration
    shares = [share for row in result.rows for share in row.values("others_share")]
    disturbed = max(shares, default=0.0)
    verdict = (
        f"Other programs used up to {disturbed:.0%} of the CPU time: no verdict. "
        if disturbed > DISTURBED
        else _verdict(result)
    )
    return rendered(
        [row for name in VARIANTS if (row := result.row(name))],
        {
            "variant": lambda row: VARIANTS[row.name],
            "seconds": lambda row: spread(row.values("wall_seconds"), ".1f"),
            "speedup over the bare loop": lambda row: speedup(row, "bare"),
            "over headrace without a cache": lambda row: speedup(row, "none"),
        },
        f"mobilenet_v2 on {parameters['rate']} frames per second of {parameters['count']} web "
        "videos of 10 s, 1280×720. Whole commands, imports included; median (min–max) of "
        f"{parameters['repeats']} interleaved rounds. headrace's features equal the bare loop's "
        f"(min cosine {result.least_cosine:.5f}). {verdict}{machine(result)}",
    )


def _verdict(result: FeaturesResult) -> str:
    sentences = []
    for subject, speedups, bar in (
        ("Additional videos, over the bare loop", result.further(), BAR),
        ("Second run from SQLite", result.ratios("sqlite, again", "none"), CACHE_BAR),
    ):
        if speedups:
            words = "reached" if median(speedups) >= bar else "**not reached**"
            figures = spread(speedups, ".2f")
            sentences.append(f"{subject}: speedup {figures}, required {bar:g}: {words}. ")
    return "".join(sentences)


BENCHMARK = Benchmark("features", __doc__, measure, features)

if __name__ == "__main__":
    BENCHMARK.main()
