"""How fast come windows of 8 moments of 6 cameras, at 2 Hz of 12 Hz clips, uniformly drawn?

python -m benchmarks.camera_media --num-frames 240
python -m benchmarks.bench_camera_windows

Each way delivers the same windows at 256x704, by the same decoder and two threads:

- headrace: CameraWindowLoader with 1 GiB, if not asked otherwise, frames held as RGB, or as YUV
  4:2:0 in half the bytes.
- naive: each frame by itself, from the keyframe before it, as NVIDIA's random-access example
  decodes (accvlab.on_demand_video_decoder, there on a GPU).
- window: each window by itself; its frames of one GOP share a decoding.
- bare: PyAV decodes files from end to end, as many as there is time for, and nothing is made of
  the frames.

Equal frames are proved first: those of a window of each way, bit by bit.
"""

import argparse
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from benchmarks.camera_media import index_file
from benchmarks.equality import Equality
from benchmarks.media import DEFAULT_ROOT
from benchmarks.record import RESULTS, ROOT, Repeat, Row, TimedResult, origin
from benchmarks.resources import Meter, versions
from headrace.decode.open import open_index
from headrace.planning.lookahead import GopJob
from headrace.sampling.frames import Uniform
from headrace.sampling.moments import Moments
from headrace.training.cameras.windows.loader import CameraWindowLoader
from headrace.training.decoding import JobDecoder
from headrace.training.frame_memory import ArrayMemory
from headrace.training.video_set import VideoSet
from headrace.video.camera_layout import CameraLayout
from headrace.video.shape import FrameShape

SIZE, WORKERS, MOMENTS = (256, 704), 2, 8
OPTIONS: dict[str, dict[str, Any]] = {
    "headrace yuv420": {"hold": "yuv420"},
    "window": {"lookahead": 1},
}
WAYS = ("naive", "window", "headrace", "headrace yuv420", "bare")
EQUAL_WINDOWS = 2
NOT_EQUAL = ("headrace yuv420", "bare")
"""Colour at half the resolution; no frames at all."""


class _Naive:
    """Every frame from its keyframe, the frames of a window on two threads."""

    def __init__(self, loader: CameraWindowLoader, layout: CameraLayout) -> None:
        self._videos = VideoSet.open(layout.sources)
        self._decoder = JobDecoder(self._videos, ArrayMemory(FrameShape(size=SIZE)), max_open=1000)
        self._windows = _windows(loader)
        self._work = [self._decoder.worker() for _ in range(WORKERS)]

    @property
    def decoded(self) -> int:
        return self._decoder.counters.frames_decoded

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        with ThreadPoolExecutor(WORKERS) as pool:
            for ids in self._windows:
                window = np.empty((len(ids), *SIZE, 3), np.uint8)
                parts = [range(first, len(ids), WORKERS) for first in range(WORKERS)]
                done = [
                    pool.submit(self._read, *each, ids, window)
                    for each in zip(self._work, parts, strict=True)
                ]
                for each in done:
                    each.result()
                yield window

    def _read(self, work: Any, part: range, ids: NDArray[np.int64], out: Any) -> None:
        for place in part:
            frame = int(ids[place])
            gop = int(self._decoder.population.gop_of(np.array(frame)))
            (picture,) = work(GopJob(gop=gop, frames=(frame,))).frames.values()
            out[place] = picture
            self._decoder.memory.give(picture)


def _windows(loader: CameraWindowLoader) -> Iterator[NDArray[np.int64]]:
    """Yield the frame ids of one window after the other, as the loader draws them."""
    for epoch in count():
        order = loader._epochs.order(epoch)
        for slot in range(len(order)):
            yield order[slot : slot + 1][0]


def _bare(layout: CameraLayout, meter: Meter, seconds: float) -> int:
    def decode(path: Path) -> int:
        if meter.wall_seconds > seconds:
            return 0
        with av.open(str(path)) as container:
            container.streams.video[0].thread_count = 1
            return sum(1 for _ in container.decode(video=0))

    with ThreadPoolExecutor(WORKERS) as pool:
        return sum(pool.map(decode, [source.path for source in layout.sources]))


def _opened(layout: CameraLayout, name: str, memory_budget: str) -> CameraWindowLoader:
    return CameraWindowLoader(
        layout,
        num_moments=MOMENTS,
        moments=Moments.rate(2.0),
        sampling=Uniform(),
        size=SIZE,
        workers=WORKERS,
        memory_budget=memory_budget,
        **OPTIONS.get(name, {}),
    )


def _pictures(loader: CameraWindowLoader) -> Iterator[NDArray[np.uint8]]:
    for batch in chain.from_iterable(loader for _ in count()):
        yield batch.frames.movedim(-3, -1).reshape(-1, *SIZE, 3).numpy()


def measure(path: Path, name: str, seconds: float, memory_budget: str) -> dict[str, Any]:
    """Return a `Repeat` as JSON, with checksums of the first windows."""
    layout = CameraLayout.read(path)
    if name == "bare":
        meter = Meter()
        frames = _bare(layout, meter, seconds)
        return {"frames": frames, "decoded": frames, "windows": [], **meter.read()}
    with _opened(layout, name, memory_budget) as loader:
        naive = _Naive(loader, layout) if name == "naive" else None
        windows = iter(_pictures(loader) if naive is None else naive)
        sums = [zlib.crc32(each.tobytes()) for each in islice(windows, EQUAL_WINDOWS)]
        # Until the window of the planner has been filled once; a schedule without one is steady.
        warm_up = loader.lookahead // (MOMENTS * 6) if name.startswith("headrace") else 0
        for _ in range(warm_up):
            next(windows)

        def decoded() -> int:
            return loader.decoding.frames_decoded if naive is None else naive.decoded

        before, meter, frames = decoded(), Meter(), 0
        while meter.wall_seconds < seconds:
            frames += len(next(windows))
        cost = {"frames": frames, "decoded": decoded() - before, **meter.read()}
        return {"windows": sums, "warm_up_frames": warm_up * MOMENTS * 6, **cost}


def _ask(path: Path, name: str, seconds: float, memory_budget: str) -> dict[str, Any]:
    words = ["--index-file", str(path), "--way", name, "--seconds", str(seconds)]
    words += ["--memory-budget", memory_budget]
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_camera_windows", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Time all ways turn by turn, each in a process of its own, and keep the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    default = index_file(DEFAULT_ROOT, 10, 240)
    add("--index-file", type=Path, default=default, help="of clips of 6 cameras at 12 Hz")
    add("--repeats", type=int, default=3)
    add("--memory-budget", default="1GiB")
    add("--seconds", type=float, default=8, help="of each way and repeat, without its warm-up")
    add("--out", type=Path, default=RESULTS / "camera_windows.json")
    add("--way", choices=WAYS, help="measure this one here, and print it as JSON")
    options = parser.parse_args()
    path = options.index_file.resolve()
    if not path.is_file():
        sys.exit(f"no {path}; make it: python -m benchmarks.camera_media --num-frames 240")
    if options.way:
        print(json.dumps(measure(path, options.way, options.seconds, options.memory_budget)))
        return
    for source in CameraLayout.read(path).sources:
        open_index(source)  # kept, so that no way pays for it
    right: list[int] = []
    rows = {name: Row(name=name, versions=versions(["av", "torch"])) for name in WAYS}
    for _ in range(options.repeats):
        for name in WAYS:
            found = _ask(path, name, options.seconds, options.memory_budget)
            windows = found.pop("windows")
            right = right or windows
            wrong = 0 if name in NOT_EQUAL else sum(np.not_equal(right, windows).tolist())
            if wrong:
                sys.exit(f"{name}: {wrong} of {len(right)} windows have other pixels than naive")
            row, repeat = rows[name], Repeat(**found)
            equality = Equality(
                frames=len(windows) * MOMENTS * 6, missing=0, wrong=0, max_mean_difference=0.0
            )
            rows[name] = row.model_copy(
                update={
                    "repeats": (*row.repeats, repeat),
                    "equality": None if name in NOT_EQUAL else equality,
                }
            )
            print(
                f"{name}: {repeat.frames_per_second:.1f} frames/s, decoded/delivered "
                f"{(repeat.decoded or 0) / repeat.frames:.2f}, others used "
                f"{repeat.others_share or 0:.0%} of the machine",
                flush=True,
            )
    parameters = {name: getattr(options, name) for name in ("repeats", "seconds", "memory_budget")}
    layout = CameraLayout.read(path)
    media = {"clips": len(layout.clips), "frames": [clip.num_frames for clip in layout.clips]}
    result = TimedResult(provenance=origin(parameters), media=media, rows=tuple(rows.values()))
    result.save(options.out)
    speed = {name: row.speed for name, row in rows.items()}
    print(f"headrace: {speed['headrace'] / speed['naive']:.2f} times naive; {options.out}")


if __name__ == "__main__":
    main()
