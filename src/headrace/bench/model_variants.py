"""A model and batches of a real video in memory: for benchmarks that compare variants of both."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Final, TypeVar

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from headrace.bench.benchmark import Context
from headrace.bench.config import ModelTurnsConfig, allowed_difference, indexes_of
from headrace.bench.variant_benchmark import SelfTimedWork, Work, for_seconds
from headrace.decode.index_store import IndexStore
from headrace.decode.open_decoder import open_decoder
from headrace.decode.protocol import DecodeJob
from headrace.errors import BackendError, ConfigError
from headrace.extraction.frame_reader import FrameReader
from headrace.models.compute import Compute, Device
from headrace.models.load import load_classifier
from headrace.models.model import Model
from headrace.models.precision_support import check_available, operation_threads
from headrace.models.prepare import PreparedModel, prepare
from headrace.models.results import Labels
from headrace.models.transfer import transfer
from headrace.preprocess.levels import build_preprocess
from headrace.preprocess.spec import InputSpec, PrepLevel
from headrace.profiling.number_format import gibibytes
from headrace.runs.run_options import ComputeOptions
from headrace.runtime.clock import Clock
from headrace.video.frame_format import FrameFormat
from headrace.video.frames import FrameBatch
from headrace.video.stream_index import StreamIndex

_BATCHES: Final = 4
"""Different batches that are held: enough that no cache of the processor knows the next one."""
_MOST_BYTES: Final = 1 << 28
"""Of decoded frames that are held, but for one batch."""
_SHARE: Final = 0.25
"""Of the free memory that a batch of decoded frames may take: what becomes of it takes more."""

Batch = TypeVar("Batch", torch.Tensor, NDArray[np.uint8])


@dataclass(frozen=True, kw_only=True, eq=False)
class CachedFrames:
    """Decoded frames of a video, in batches of one size."""

    index: StreamIndex
    """Of the video."""
    batches: tuple[NDArray[np.uint8], ...]
    """Each uint8 [N, H, W, 3]; consecutive frames, the batches from all over the video."""

    @property
    def num_frames(self) -> int:
        """Frames in all batches."""
        return sum(map(len, self.batches))

    def prepared(self, level: PrepLevel, spec: InputSpec) -> tuple[torch.Tensor, ...]:
        """Return the batches as a model takes them, float32 [N, 3, h, w], on the CPU."""
        preprocess = build_preprocess(level, spec)
        return tuple(preprocess(batch) for batch in self.batches)


def hold_frames(video: str, batch_size: int, store: IndexStore | None = None) -> CachedFrames:
    """Decode up to 4 batches, fewer of large frames; a video of fewer frames repeats them.

    Raises:
        MediaError: it cannot be opened, or a frame is damaged.
        ConfigError: it has no length, or a batch does not fit into the memory.
    """
    (index,) = indexes_of([video], store)
    height, width = index.info.upright_size
    batch_bytes = batch_size * height * width * 3
    free = psutil.virtual_memory().available
    if batch_bytes > _SHARE * free:
        raise ConfigError(
            f"a batch of {batch_size} frames of {height}x{width} takes "
            f"{gibibytes(batch_bytes)} before it is preprocessed, and {gibibytes(free)} are free; "
            "use a smaller --batch-size"
        )
    room = _MOST_BYTES // batch_bytes
    count = max(1, min(_BATCHES, room, len(index) // batch_size))
    starts = _starts(index, batch_size, count)
    stretch = -(-count // len(starts)) * batch_size
    batches: list[NDArray[np.uint8]] = []
    with closing(open_decoder(index, FrameFormat(size=(height, width)))) as decoder:
        for start in starts:
            wanted = tuple(range(start, min(len(index), start + stretch)))
            frames = np.stack([f for _, f in decoder.run(DecodeJob(wanted, goes_on=False))])
            if len(frames) < batch_size:
                frames = frames[np.arange(batch_size) % len(frames)]
            places = range(0, len(frames) - batch_size + 1, batch_size)
            batches += [frames[place : place + batch_size] for place in places]
    return CachedFrames(index=index, batches=tuple(batches[:count]))


@contextmanager
def held_frames(config: ModelTurnsConfig, context: Context) -> Iterator[CachedFrames]:
    """Hold frames of the video, once the device is known to be there; set threads meanwhile.

    Raises:
        BackendError: the device is missing.
        MediaError, ConfigError: as `hold_frames` does.
    """
    check_available(config.compute_options().compute())
    held = hold_frames(config.videos[0], config.batch_size, context.store)
    with operation_threads(config.threads):
        yield held


def _starts(index: StreamIndex, batch_size: int, count: int) -> list[int]:
    """Return where to begin: at keyframes that are spread over the video, each once."""
    last = max(0, len(index) - batch_size)
    places = (len(index) * k // count for k in range(count))
    return sorted({min(last, index.gop_range(index.gop_of(place))[0]) for place in places})


def ready_classifier(
    options: ComputeOptions, clock: Clock, compute: Compute | None = None, **more: Any
) -> PreparedModel[Labels]:
    """Return the model, loaded and warm; `more` are arguments of `prepare`.

    Raises:
        ConfigError, BackendError: it cannot be had, or not run as `compute` says.
    """
    return prepare(
        partial(load_classifier, options.model_name, options.weights),
        compute or options.compute(),
        batch_size=options.batch_size,
        clock=clock,
        **more,
    )


def grey_levels_apart(
    one: torch.Tensor, other: torch.Tensor, std: Sequence[float]
) -> tuple[float, float]:
    """Return how far normalised frames on the CPU are apart, in grey levels: most, and the mean."""
    grey_levels = 255 * torch.tensor(std).reshape(1, 3, 1, 1)
    apart = (one - other).abs().nan_to_num(nan=inf) * grey_levels
    return float(apart.max()), float(apart.mean())


def on_device(batches: Sequence[torch.Tensor], device: Device) -> tuple[torch.Tensor, ...]:
    """Return the batches where the model runs, so that carrying them is not timed with it."""
    return tuple(transfer(batch, device).tensor for batch in batches)


def scores(model: Model[Any], batch: torch.Tensor) -> torch.Tensor:
    """Return what the model scores the classes of each frame with: float32 [N, classes], CPU."""
    with model.computing():
        found: torch.Tensor = model.module(batch)
        return found.float().cpu()


def difference(
    one: Callable[[torch.Tensor], torch.Tensor],
    other: Callable[[torch.Tensor], torch.Tensor],
    batches: Sequence[torch.Tensor],
) -> float:
    """Return how far two variants are apart at most: |difference| ÷ the largest |score|.

    What is no number is infinitely far from everything.
    """
    apart = largest = 0.0
    for batch in batches:
        first, second = one(batch), other(batch)
        far = (first - second).abs().nan_to_num(nan=inf)
        apart = max(apart, float(far.max()))
        largest = max(largest, float(first.abs().max()))
    return apart / largest if largest else apart


def prove_same(
    what: str,
    one: Callable[[torch.Tensor], torch.Tensor],
    other: Callable[[torch.Tensor], torch.Tensor],
    batches: Sequence[torch.Tensor],
    device: Device,
    *,
    instead: str,
) -> float:
    """Return how far the scores of two variants are apart at most: see `difference`.

    Args:
        what: The beginning of the sentence, where they are too far apart.
        one: Scores a batch.
        other: Scores it another way.
        batches: At least one.
        device: Where the models run; on a GPU more is allowed.
        instead: What to do then.

    Raises:
        BackendError: they are further apart than allowed.
    """
    apart, allowed = difference(one, other, batches), allowed_difference(device)
    if apart > allowed:
        raise BackendError(
            f"{what}: by {apart:.2g} of the largest score, and {allowed:g} is allowed, so nothing "
            f"was timed; {instead}"
        )
    return apart


def passes(
    batches: Sequence[Batch], run: Callable[[Batch], object], *, seconds: float, clock: Clock
) -> Work:
    """Return a variant: runs batch after batch for so long; gives the frames it did."""

    def frames(batch: Batch) -> int:
        run(batch)
        return len(batch)

    return for_seconds(batches, frames, seconds=seconds, clock=clock)


def endless(index: StreamIndex, batch_size: int) -> Generator[FrameBatch, None, None]:
    """Decode a video again and again, on all cores, as a run does."""
    while True:
        with closing(iter(FrameReader([index], batch_size=batch_size))) as batches:
            yield from batches


@contextmanager
def decoding(index: StreamIndex, batch_size: int) -> Iterator[Iterator[int]]:
    """Decode without end; yield what counts the frames of each batch."""
    with closing(endless(index, batch_size)) as batches:
        yield map(len, batches)


class ContinuousVariant:
    """A variant that goes on by itself: begun before its turn, drawn from in it."""

    def __init__(
        self,
        begin: Callable[[], AbstractContextManager[Iterator[int]]],
        seconds: float,
        clock: Clock,
    ) -> None:
        """Begin nothing yet.

        Args:
            begin: Begins it; gives the frames of each batch that comes out, without end.
            seconds: How long a turn takes, about.
            clock: What measures.
        """
        self._begin, self._seconds, self._clock = begin, seconds, clock
        self._counts: Iterator[int] = iter(())
        self._began_ns = 0

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Begin it, and wait for its first batch, which is not counted; end it behind the block."""
        with self._begin() as self._counts:
            next(self._counts)
            self._began_ns = self._clock.now_ns()
            yield

    def __call__(self) -> SelfTimedWork:
        """Take batches for the time of a turn; return their frames.

        It went on meanwhile, so the time counts from the batch before the first of them.
        """
        now_ns = self._clock.now_ns()
        stop_ns, frames = now_ns + round(self._seconds * 1e9), 0
        for count in self._counts:
            frames += count
            now_ns = self._clock.now_ns()
            if now_ns >= stop_ns:
                break
        return SelfTimedWork(amount=frames, seconds=(now_ns - self._began_ns) / 1e9)
