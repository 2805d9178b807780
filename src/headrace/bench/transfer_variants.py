"""Variants of `bench transfer`: decode, copy and normalise in different orders."""

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
import torch

from headrace.bench.benchmark import Context
from headrace.bench.config import indexes_of
from headrace.bench.model_variants import check_frames_equal
from headrace.bench.transfer import (
    DOWNLOADED,
    KEPT,
    NO_GPU,
    PAGEABLE,
    PINNED,
    UINT8,
    CopyStats,
    TransferConfig,
    TransferRecord,
)
from headrace.bench.variant_benchmark import VariantSet, Work, for_seconds
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.open_decoder import open_decoder, open_device_decoder
from headrace.decode.protocol import DecodeJob, Decoder
from headrace.decode.pyav import PyavDecoder
from headrace.errors import BackendError
from headrace.models.compute import Device
from headrace.models.device import Copy, PinnedCopy, copy_to
from headrace.preprocess.levels import Frames, build_preprocess
from headrace.preprocess.spec import InputSpec
from headrace.runs.run_stages import Transfer
from headrace.runtime.clock import Clock
from headrace.video.frame_format import FrameFormat
from headrace.video.stream_index import StreamIndex

_SPEC: Final = InputSpec(
    resize=None,
    crop=None,
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
    interpolation="bilinear",
)
"""Input with normalisation only: decoded frames already have the requested size."""
_NORMALISE: Final = build_preprocess("simple", _SPEC)
_ALLOWED: Final = (0.01, 0.01)
"""Max and mean difference allowed, grey levels: float32 on two devices."""
_ALLOWED_KEPT: Final = (46.0, 3.0)
"""The same for RGB converted on the GPU: see `TensorConverter`."""


@contextmanager
def prepare(config: TransferConfig, context: Context) -> Iterator[VariantSet[TransferRecord]]:
    """Check that all variants give equal tensors; without a GPU, no variant is timed.

    Raises:
        ConfigError, MediaError: the video cannot be read.
        BackendError: a variant's tensors differ from the first variant's.
    """
    (index,) = indexes_of(config.videos, context.store)
    has_gpu = torch.cuda.is_available()
    context.on_progress("comparing variants", 0, 0)
    with Flows(index, config, context.clock, device="cuda" if has_gpu else "cpu") as flows:
        flows.check_equal()
        yield VariantSet(
            variants=flows.variants() if has_gpu else {},
            record=lambda **measured: TransferRecord(
                **measured,
                size=config.size,
                batch_size=config.batch_size,
                gpu=torch.cuda.get_device_name() if has_gpu else None,
                ways=tuple(flows.copy_stats(None if has_gpu else NO_GPU)),
            ),
        )


@dataclass(kw_only=True, eq=False)
class Flow:
    """One variant in one thread, from video to normalised tensor; counts its copies."""

    decoder: Decoder[Any]
    carrier: Transfer
    clock: Clock
    batches: Generator[Frames, None, None]
    """Endless batches of the looping video."""
    carries_frames: bool = False
    """Whether uint8 frames are copied, then normalised; else float32 tensors are copied."""
    frames: int = 0
    """Frames converted to tensors."""
    after_ns: int = 0
    """Nanoseconds from decoded frames to tensors."""

    def next(self) -> torch.Tensor:
        """Return the next batch, float32 [N, 3, H, W], complete on return."""
        batch = next(self.batches)
        started_ns = self.clock.now_ns()
        if self.carries_frames:
            tensor = _NORMALISE(self.carrier.carry(batch))
        else:
            tensor = self.carrier.carry(_NORMALISE(batch))
        if tensor.is_cuda:
            torch.cuda.current_stream(tensor.device).synchronize()
        self.after_ns += self.clock.now_ns() - started_ns
        self.frames += len(batch)
        return tensor

    @property
    def down_bytes(self) -> int:
        """Device-to-host bytes."""
        return self.decoder.brought_down_bytes if isinstance(self.decoder, PyavDecoder) else 0


class Flows(AbstractContextManager["Flows"]):
    """All variants, with reasons for unavailable ones; a context manager."""

    def __init__(
        self, index: StreamIndex, config: TransferConfig, clock: Clock, *, device: Device
    ) -> None:
        """Open every variant; with `cpu`, copies stay in main memory."""
        self._config, self._clock, self._device = config, clock, device
        self._flows: dict[str, Flow | str] = {}
        self._differences: dict[str, tuple[float, float]] = {}
        self._open = ExitStack()
        is_gpu, shape = device == "cuda", FrameFormat(size=config.size)
        plain: Copy = copy_to if is_gpu else _clone
        first_pinned, pinned = (PinnedCopy() if is_gpu else _clone for _ in range(2))
        on_gpu = DecoderConfig(device="cuda:0" if is_gpu else "cpu", keeps_on_device=True)
        for variant, open_frames, decoding, copy in (
            (PAGEABLE, open_decoder, ON_CPU, plain),
            (PINNED, open_decoder, ON_CPU, first_pinned),
            (UINT8, open_decoder, ON_CPU, pinned),
            (DOWNLOADED, open_decoder, DecoderConfig.on_gpu(0), plain),
            # Frames already on the device are not copied.
            (KEPT, open_device_decoder, on_gpu, copy_to),
        ):
            try:
                decoder = self._open.enter_context(closing(open_frames(index, shape, decoding)))
            except BackendError as error:
                self._flows[variant] = str(error)
                continue
            self._flows[variant] = flow = Flow(
                decoder=decoder,
                carrier=Transfer(device, copy),
                clock=clock,
                batches=_endless(decoder, config.batch_size),
                carries_frames=variant in (UINT8, KEPT),
            )
            self._open.callback(flow.batches.close)

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def check_equal(self) -> None:
        """Compare the first batch of every variant with the first variant's.

        Raises:
            BackendError: a difference exceeds the tolerance for float32, or for RGB conversion on a
                GPU.
        """
        first = self._flows[PAGEABLE]
        assert isinstance(first, Flow)
        expected = first.next().cpu()
        for variant, flow in self._flows.items():
            if isinstance(flow, str) or flow is first:
                continue
            if self._device == "cpu" and variant == DOWNLOADED:
                continue
            try:
                tensor = flow.next().cpu()
            except BackendError as error:
                self._flows[variant] = str(error)
                continue
            self._differences[variant] = check_frames_equal(
                f"tensors of {variant} differ from {PAGEABLE}",
                tensor,
                expected,
                _SPEC.std,
                allowed=_ALLOWED_KEPT if variant == KEPT else _ALLOWED,
                fix="decode on the CPU",
            )

    def variants(self) -> dict[str, Work]:
        """Return the variants that can be timed."""
        seconds, clock = self._config.seconds, self._clock
        return {
            variant: for_seconds(
                (flow,), lambda flow: len(flow.next()), seconds=seconds, clock=clock
            )
            for variant, flow in self._flows.items()
            if isinstance(flow, Flow)
        }

    def copy_stats(self, why_not: str | None) -> Iterator[CopyStats]:
        """Yield the copies of each variant so far; `why_not` is the reason none was timed."""
        is_gpu = self._device == "cuda"
        for variant, flow in self._flows.items():
            if isinstance(flow, str):
                yield CopyStats(way=variant, why_not=why_not or flow)
                continue
            is_counted = flow.frames > 0 and (is_gpu or variant not in (DOWNLOADED, KEPT))
            max_difference, mean = self._differences.get(variant, (None, None))
            yield CopyStats(
                way=variant,
                up_bytes=flow.carrier.moved_bytes / flow.frames if is_counted else None,
                down_bytes=flow.down_bytes / flow.frames if is_counted else None,
                after_ms=flow.after_ns / 1e6 / flow.frames if is_gpu and flow.frames else None,
                most_apart=max_difference,
                mean_apart=mean,
                why_not=why_not,
            )


def _clone(tensor: torch.Tensor, device: Device) -> torch.Tensor:
    """Return a copy in main memory, in place of a GPU copy of equal size."""
    return tensor.clone()


def _endless(decoder: Decoder[Any], batch_size: int) -> Generator[Frames, None, None]:
    """Yield batches of up to `batch_size` frames of the looping video."""
    job = DecodeJob(tuple(range(len(decoder.index))), goes_on=False)
    while True:
        frames: Iterator[Any] = (frame for _, frame in decoder.run(job))
        while batch := list(islice(frames, batch_size)):
            is_tensor = isinstance(batch[0], torch.Tensor)
            yield torch.stack(batch) if is_tensor else np.stack(batch)
