"""Clip, source and model that all variants of the live benchmarks share.

The clip is real video, 720p at 30 frames per second, from the shots of `benchmarks.media`. A corner
of each frame has the frame number, so a shown frame has a known number and, by the sender's clock,
a known age. The source is a file that one thread decodes, on demand or at a given rate. The time of
the model is adjustable.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from fractions import Fraction
from itertools import count, islice, pairwise
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, NamedTuple

import av
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.equality import Pictures, shrink
from benchmarks.media import FRAME_RATE, HEIGHT, WIDTH, encode, pictures, shots
from headrace import DecodeJob, open_decoder, open_index
from headrace.live.drop_policy import DropPolicy
from headrace.live.live_source import Event, LiveFrame
from headrace.models.load import load_classifier
from headrace.planning.chunks import split_video
from headrace.preprocess.levels import build_preprocess
from headrace.profiling.session import Pace
from headrace.runs.live.live_batches import ModelRunner, split_outputs
from headrace.runs.live.live_pipeline import LivePipeline, LivePlan
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.runtime.waitable_source import Waiter
from headrace.testing.synth_pixels import read_number
from headrace.video.frame_barcode import DARK, LIGHT, blocks_of, grid_of

CORNER = (160, 192)
"""Height and width of the upper left corner, whose upper five eighths have the number."""
_ENCODER = {"preset": "veryfast", "crf": "26", "g": "30", "bf": "0"}
"""x264 options like those of a camera: a keyframe per second, no B-frames."""
_ROWS = 704
"""Rows of a frame that a thumbnail covers: a multiple of 32."""


def numbered_clip(root: Path, seconds: int) -> Path:
    """Return the clip of `seconds`; creates it if missing, in about half its duration."""
    path = root / "live" / f"numbered-{seconds}s.mp4"
    if not path.is_file():
        frames = islice(_frames(), seconds * FRAME_RATE)
        encode(path, frames, (HEIGHT, WIDTH), FRAME_RATE, _ENCODER)
    return path


def number_of(picture: NDArray[np.uint8]) -> int:
    """Return the frame number, from 0, in an image: uint8 [H, W, 3], RGB or BGR.

    Raises:
        ValueError: the number is not readable.
    """
    height, width = CORNER
    return read_number(picture[:height, :width])


def grey_thumbnails(pictures: NDArray[np.uint8]) -> Pictures:
    """Return gray thumbnails of uint8 [N, 720, 1280, 3] as [N, 32, 32, 1]; omits the last 16 rows.

    Gray is the mean of the channels, so it is equal for RGB and BGR.
    """
    thumbnails = shrink(pictures[:, :_ROWS]).astype(np.float32)
    grey: Pictures = thumbnails.mean(axis=-1, keepdims=True).astype(np.float16)
    return grey


def _frames() -> Iterator[av.VideoFrame]:
    """Yield endless frames with their number in a corner."""
    plain = (frame for video in count() for shot in shots(video) for frame in pictures(shot))
    for number, frame in enumerate(plain):
        for plane in frame.planes:
            rows = np.frombuffer(bytes(plane), np.uint8).reshape(-1, plane.line_size).copy()
            if plane.width < frame.width:  # chroma
                rows[: CORNER[0] // 2, : CORNER[1] // 2] = 128
            else:
                for is_light, place in zip(blocks_of(number), grid_of(CORNER), strict=True):
                    rows[place] = LIGHT if is_light else DARK
            plane.update(rows.tobytes())
        yield frame


NAME = "mobilenet_v2"


def classifier(*, threads: int, at_least: float = 0.0, waits: bool = False) -> ModelRunner:
    """Return mobilenet_v2 with random weights, warmed up, and its preprocessing.

    Args:
        threads: Threads of one PyTorch operation; global to the process.
        at_least: Min seconds of a batch; the model runs repeatedly until then.
        waits: Whether to sleep for `at_least` instead of computing, like a wait for a device.
    """
    torch.set_num_threads(threads)
    model = load_classifier(NAME, "none")

    def run(batch: torch.Tensor) -> Any:
        if waits:
            sleep(at_least)
            return [0.0] * len(batch)
        began = perf_counter()
        output = model.run(batch)
        while perf_counter() - began < at_least:
            output = model.run(batch)
        return output

    prepare = build_preprocess("medium", model.input)
    run(prepare(np.zeros((1, 720, 1280, 3), np.uint8)))
    return ModelRunner(prepare=prepare, run=run)


class OneThread:
    """`LiveSource` of one file, which always starts at its first frame."""

    def __init__(self, path: Path, rate: int | None = None) -> None:
        """Scan the file; `rate` is in frames per second, None: on demand."""
        self._index = open_index(path)
        self._rate = rate
        self.name = str(path)

    @property
    def base(self) -> Pace:
        """`schedule`, or `full_speed` without a rate."""
        return "full_speed" if self._rate is None else "schedule"

    def frames(
        self, number: int, waiter: Waiter, note: Callable[[Event], None] = lambda event: None
    ) -> Generator[LiveFrame, None, None]:
        """See `LiveSource.frames`; each frame is decoded before it is due."""
        start_ns = None
        with closing(open_decoder(self._index)) as decoder:
            for stretch in split_video(0, self._index):
                for index, pixels in decoder.run(DecodeJob(stretch.wanted)):
                    moment_ns = waiter.clock.now_ns()
                    if self._rate is not None:
                        start_ns = moment_ns if start_ns is None else start_ns
                        moment_ns = start_ns + round(Fraction(index, self._rate) * 1_000_000_000)
                        waiter.until(moment_ns)
                    yield LiveFrame(
                        pixels=pixels,
                        source=number,
                        number=index,
                        run=0,
                        pts=int(self._index.pts[index]),
                        time_base=self._index.info.time_base,
                        arrived_ns=moment_ns,
                    )


STAGES = ("decode", "preprocess", "model")


class Answered(NamedTuple):
    """Result of one frame."""

    number: int
    output: Any
    age_ms: float
    """Age of the frame at its result."""
    spent: dict[str, int]
    """Stage → its work in nanoseconds."""


def one_after_another(source: OneThread, engine: ModelRunner, count: int) -> Iterator[Answered]:
    """Yield the results of `count` frames.

    One thread decodes, waits until the frame is due, stacks, preprocesses and runs the model.
    """
    now_ns = SYSTEM_CLOCK.now_ns
    with closing(source.frames(0, Waiter())) as frames:
        for _ in range(count):
            moments = [now_ns()]
            frame = next(frames)
            moments.append(now_ns())
            batch = engine.prepare(np.stack([frame.pixels]))
            moments.append(now_ns())
            output = engine.run(batch)
            moments.append(now_ns())
            work_ns = (end - begin for begin, end in pairwise(moments))
            age_ms = (moments[-1] - frame.arrived_ns) / 1e6
            spent = dict(zip(STAGES, work_ns, strict=True))
            yield Answered(frame.number, split_outputs(output, 1)[0], age_ms, spent)


def in_threads(source: OneThread, engine: ModelRunner, count: int) -> Iterator[Answered]:
    """Yield `count` results of a live run, as the consumer receives them."""
    overload = DropPolicy.from_name("keep-all", is_live=source.base != "full_speed")
    plan = LivePlan(sources=[source], model_runner=engine, overload=overload)
    with LivePipeline(plan) as pipeline:
        for item in islice(pipeline, count):
            answered, now_ns = item.value, SYSTEM_CLOCK.now_ns()
            yield Answered(
                answered.views[0][-1].number,
                answered.outputs[0],
                (now_ns - answered.newest_ns) / 1e6,
                {span.stage: span.work_ns for span in item.spans},
            )


Variant = Callable[[OneThread, ModelRunner, int], Iterator[Answered]]
VARIANTS: tuple[Variant, Variant] = one_after_another, in_threads
