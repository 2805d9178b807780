"""How many frames per second does each variant deliver as random windows of camera clips?

python -m benchmarks.camera_media --num-frames 240
python -m benchmarks.bench_camera_windows

A window has 8 moments of 6 cameras, at 2 Hz from clips of 12 Hz. Each variant delivers the same
windows at 256x704, with the same decoder and two threads:

- headrace: CameraWindowLoader with `--memory-budget`; frames are held as RGB, or as YUV 4:2:0 in
  half the bytes.
- naive: decodes each frame from its keyframe, like NVIDIA's random-access example
  (accvlab.on_demand_video_decoder, on a GPU).
- window: decodes window by window; frames of one GOP are decoded together.
- bare: PyAV decodes whole files and delivers nothing, until the time is over.

Before timing, the first two windows of each variant are compared bit for bit.
"""

import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, count, islice
from pathlib import Path
from statistics import median
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from benchmarks.adapters import Delivery
from benchmarks.camera_media import index_file
from benchmarks.equality import Equality
from benchmarks.kit import Benchmark, rounds
from benchmarks.markdown import budget, machine, others, rendered, spread
from benchmarks.media import DEFAULT_ROOT
from benchmarks.record import Repeat, Row, TimedResult, origin, ratios
from benchmarks.worker import Meter, ask_worker, steady, versions
from headrace import CameraLayout, CameraWindowLoader, Moments, UniformFrames, open_index
from headrace.loaders.augment import FrameViews
from headrace.loaders.frame_memory import FrameMemory
from headrace.loaders.job_decoder import JobDecoder
from headrace.loaders.video_set import VideoSet
from headrace.planning.lookahead import GopJob
from headrace.video.frame_format import FrameFormat

INDEX_FILE = index_file(DEFAULT_ROOT, 10, 240)
SIZE, WORKERS, MOMENTS = (256, 704), 2, 8
WINDOW_FRAMES = MOMENTS * 6
OPTIONS: dict[str, dict[str, Any]] = {
    "headrace yuv420": {"hold": "yuv420"},
    "window": {"lookahead": 1},
}
VARIANTS = {
    "naive": "frame by frame, each from its keyframe, like NVIDIA's random-access example",
    "window": "window by window, frames of one GOP together",
    "headrace": "**CameraWindowLoader**",
    "headrace yuv420": "**CameraWindowLoader**, frames held as YUV 4:2:0",
    "bare": "plain decoding of whole files by PyAV, no delivery",
}
EQUAL_WINDOWS = 2
"""Windows that are compared."""
NOT_EQUAL = ("headrace yuv420", "bare")
"""Variants that are not compared: one has chroma at half the resolution, one has no frames."""


def measure(
    *,
    index_file: Path = INDEX_FILE,
    repeats: int = 3,
    memory_budget: str = "1GiB",
    seconds: float = 8.0,
) -> Iterator[TimedResult]:
    """Time all variants, interleaved, each in its own process.

    Args:
        index_file: index file of clips of 6 cameras at 12 Hz
        repeats: repeats per variant
        memory_budget: memory for frames of headrace
        seconds: min seconds per repeat, without its warm-up
    """
    path = index_file.resolve()
    if not path.is_file():
        words = "python -m benchmarks.camera_media --num-frames 240"
        sys.exit(f"{path} is missing; create it with: {words}")
    parameters = {"path": str(path), "seconds": seconds, "memory_budget": memory_budget}
    layout = CameraLayout.read(path)
    for source in layout.sources:
        open_index(source)  # stored, so that no variant includes the scan
    expected: list[int] = []

    def take(row: Row) -> Row:
        answer = ask_worker({"case": "bench_camera_windows", "way": row.name, **parameters})
        windows = answer.pop("windows")
        expected.extend(windows if not expected else ())
        wrong = 0 if row.name in NOT_EQUAL else sum(np.not_equal(expected, windows).tolist())
        if wrong:
            sys.exit(f"{row.name}: {wrong} of {len(expected)} windows differ from naive's")
        return row.timed(Repeat(**answer))

    frames, known = EQUAL_WINDOWS * WINDOW_FRAMES, versions(["av", "torch"])
    equal = Equality(frames=frames, missing=0, wrong=0, max_mean_difference=0.0)
    rows = [
        Row(name=name, versions=known, equality=None if name in NOT_EQUAL else equal)
        for name in VARIANTS
    ]
    *_, rows = rounds(rows, take, repeats)
    yield TimedResult(
        provenance=origin(repeats=repeats, seconds=seconds, memory_budget=memory_budget),
        media={"clips": len(layout.clips), "frames": [clip.num_frames for clip in layout.clips]},
        rows=tuple(rows),
    )


def answer(*, path: str, way: str, seconds: float, memory_budget: str) -> dict[str, Any]:
    """Return a `Repeat` as JSON, with checksums of the first windows."""
    layout = CameraLayout.read(Path(path))
    if way == "bare":
        meter = Meter()
        frames = _bare(layout, meter, seconds)
        return {"frames": frames, "decoded": frames, "windows": [], **meter.read()}
    loader = CameraWindowLoader(
        layout,
        num_moments=MOMENTS,
        moments=Moments.rate(2.0),
        sampling=UniformFrames(),
        size=SIZE,
        num_threads=WORKERS,
        memory_budget=memory_budget,
        **OPTIONS.get(way, {}),
    )
    with loader:
        delivery = _naive(loader, layout) if way == "naive" else _delivery(loader, way)
        sums = [zlib.crc32(batch.tobytes()) for batch in islice(delivery.batches, EQUAL_WINDOWS)]
        return {"windows": sums, **steady(delivery, seconds)}


def _delivery(loader: CameraWindowLoader, way: str) -> Delivery:
    """Return the delivery of a loader with its decode counts."""
    batches = chain.from_iterable(loader for _ in count())
    windows = (batch.frames.movedim(-3, -1).reshape(-1, *SIZE, 3).numpy() for batch in batches)
    # The warm-up lasts until the lookahead is full; variants without lookahead need no warm-up.
    return Delivery(
        windows,
        lambda: loader.lookahead if way.startswith("headrace") else 0,
        lambda: {"decoded": loader.decode_counters.frames_decoded},
    )


def _naive(loader: CameraWindowLoader, layout: CameraLayout) -> Delivery:
    """Return the delivery of the naive variant, which decodes a window on two threads."""
    videos = VideoSet.open(layout.sources)
    decoder = JobDecoder(
        views=FrameViews(videos=videos), memory=FrameMemory(FrameFormat(size=SIZE)), max_open=1000
    )

    def batches() -> Iterator[NDArray[np.uint8]]:
        orders = map(loader._epochs.order, count())
        workers = [decoder.worker() for _ in range(WORKERS)]
        with ThreadPoolExecutor(WORKERS) as pool:
            for ids in (order[n : n + 1][0] for order in orders for n in range(len(order))):
                window = np.empty((len(ids), *SIZE, 3), np.uint8)

                def read(first: int, ids: Any = ids, window: Any = window) -> None:
                    for position in range(first, len(ids), WORKERS):
                        frame = int(ids[position])
                        gop = int(decoder.views.gop_of(np.array(frame)))
                        job = GopJob(gop=gop, frames=(frame,), due=frozenset((frame,)))
                        decoded = workers[first].decode(job).frames
                        window[position] = decoded[frame]
                        decoder.memory.give(decoded[frame])

                list(pool.map(read, range(WORKERS)))
                yield window

    return Delivery(batches(), cost=lambda: {"decoded": decoder.counters.frames_decoded})


def _bare(layout: CameraLayout, meter: Meter, seconds: float) -> int:
    def decode(path: Path) -> int:
        if meter.wall_seconds > seconds:
            return 0
        with av.open(str(path)) as container:
            container.streams.video[0].thread_count = 1
            return sum(1 for _ in container.decode(video=0))

    with ThreadPoolExecutor(WORKERS) as pool:
        return sum(pool.map(decode, [source.path for source in layout.sources]))


def camera_windows(result: TimedResult) -> str:
    """Return a line per variant, compared with the naive one in each round."""
    naive, parameters = result.row("naive", ""), result.provenance.configuration
    return rendered(
        result.rows,
        {
            "variant": lambda row: VARIANTS[row.name],
            "frames/s": lambda row: spread(row.values("frames_per_second"), ",.0f"),
            "÷ naive": lambda row: spread(ratios(row, naive, "frames_per_second"), ".1f"),
            "decoded ÷ delivered": lambda row: (
                f"{median((repeat.decoded or 0) / repeat.frames for repeat in row.repeats):.2f}"
            ),
        },
        f"Median (min–max) of {parameters['repeats']} interleaved rounds of "
        f"{parameters['seconds']:.0f} s; two threads, {budget(result)} for frames; uniformly "
        "random windows of 8 moments × 6 cameras at 2 Hz.",
        f"{len(result.media['frames'])} clips of 6 cameras, {result.media['frames'][0]} frames "
        "each at 12 Hz, H.265, 1600×900, GOP 30, no B-frames, to 256×704 RGB.",
        "Before timing, the frames of the first three variants were compared: they are equal.",
        f"{others(result.rows)} {machine(result)}",
    )


BENCHMARK = Benchmark("camera_windows", __doc__, measure, camera_windows)

if __name__ == "__main__":
    BENCHMARK.main()
