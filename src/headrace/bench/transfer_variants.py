"""The variants of `bench transfer`: decode, copy and normalise, in this order or another."""

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import numpy as np
import torch

from headrace.bench.model_variants import grey_levels_apart
from headrace.bench.transfer_record import (
    DOWNLOADED,
    KEPT,
    PAGEABLE,
    PINNED,
    UINT8,
    CopyStats,
    TransferConfig,
)
from headrace.bench.variant_benchmark import Work, for_seconds
from headrace.decode.decoder_config import ON_CPU, DecoderConfig
from headrace.decode.open_decoder import open_decoder, open_device_decoder
from headrace.decode.protocol import DecodeJob, Decoder
from headrace.decode.pyav import PyavDecoder
from headrace.errors import BackendError
from headrace.models.compute import Device
from headrace.models.transfer import Copy, PinnedCopy, copy_to
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
"""Normalises alone: the decoder has made frames of the size that is asked for."""
_NORMALISE: Final = build_preprocess("simple", _SPEC)
_ALLOWED: Final = (0.01, 0.01)
"""Grey levels by which a tensor may differ at most, and in the mean: float32 on two devices."""
_ALLOWED_KEPT: Final = (46.0, 3.0)
"""The same where RGB is made on the GPU: what `TensorConverter` says of itself, and why."""


@dataclass(kw_only=True, eq=False)
class Flow:
    """One variant, from the video to a normalised tensor, in one thread; counts what it copies."""

    decoder: Decoder[Any]
    carrier: Transfer
    clock: Clock
    batch_size: int
    carries_frames: bool = False
    """Whether uint8 frames are carried, and normalised where they are then; else float32."""
    frames: int = 0
    """That became tensors so far."""
    after_ns: int = 0
    """From their pictures to their tensors."""
    batches: Generator[Frames, None, None] = field(init=False)
    """Without end, the video again and again."""

    def __post_init__(self) -> None:
        self.batches = _endless(self.decoder, self.batch_size)

    def next(self) -> torch.Tensor:
        """Return the next batch, float32 [N, 3, H, W], whole when this returns."""
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
    def brought_down_bytes(self) -> int:
        """Bytes that came from the GPU."""
        return self.decoder.brought_down_bytes if isinstance(self.decoder, PyavDecoder) else 0


class Flows(AbstractContextManager["Flows"]):
    """All variants, those that cannot be had here with the reason. Close it: `with` does."""

    def __init__(
        self, index: StreamIndex, config: TransferConfig, clock: Clock, *, device: Device
    ) -> None:
        """Open every variant; `cpu` stands in for a GPU by another place in main memory."""
        self._config, self._clock, self._device = config, clock, device
        self._flows: dict[str, Flow | str] = {}
        self._apart: dict[str, tuple[float, float]] = {}
        self._open = ExitStack()
        is_gpu, shape = device == "cuda", FrameFormat(size=config.size)
        plain: Copy = copy_to if is_gpu else _copied
        first_pinned, pinned = (PinnedCopy() if is_gpu else _copied for _ in range(2))
        kept = DecoderConfig(device="cuda:0" if is_gpu else "cpu", keeps_on_device=True)
        for way, open_one, decoding, copy in (
            (PAGEABLE, open_decoder, ON_CPU, plain),
            (PINNED, open_decoder, ON_CPU, first_pinned),
            (UINT8, open_decoder, ON_CPU, pinned),
            (DOWNLOADED, open_decoder, DecoderConfig.on_gpu(0), plain),
            # What lies there already is not copied, by whatever copy.
            (KEPT, open_device_decoder, kept, copy_to),
        ):
            try:
                decoder = self._open.enter_context(closing(open_one(index, shape, decoding)))
            except BackendError as error:
                self._flows[way] = str(error)
                continue
            self._flows[way] = flow = Flow(
                decoder=decoder,
                carrier=Transfer(device, copy),
                clock=clock,
                batch_size=config.batch_size,
                carries_frames=way in (UINT8, KEPT),
            )
            self._open.callback(flow.batches.close)

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def prove(self) -> None:
        """Hold the first batch of every variant against the first one's.

        Raises:
            BackendError: one differs by more than float32 does, or than RGB that is made on a GPU.
        """
        first = self._flows[PAGEABLE]
        assert isinstance(first, Flow)
        expected = first.next().cpu()
        for way, flow in self._flows.items():
            if isinstance(flow, str) or flow is first:
                continue
            if self._device == "cpu" and way == DOWNLOADED:
                continue
            try:
                found = flow.next().cpu()
            except BackendError as error:
                self._flows[way] = str(error)
                continue
            self._apart[way] = most, mean = grey_levels_apart(found, expected, _SPEC.std)
            allowed = _ALLOWED_KEPT if way == KEPT else _ALLOWED
            if most > allowed[0] or mean > allowed[1]:
                raise BackendError(
                    f"{way} gives other tensors than {PAGEABLE}: apart by {most:.2g} grey levels, "
                    f"{mean:.2g} in the mean, and {allowed[0]:g} and {allowed[1]:g} are allowed, "
                    "so nothing was timed; decode on the CPU"
                )

    def variants(self) -> dict[str, Work]:
        """Return what can be timed."""
        seconds, clock = self._config.seconds, self._clock
        return {
            way: for_seconds((flow,), lambda each: len(each.next()), seconds=seconds, clock=clock)
            for way, flow in self._flows.items()
            if isinstance(flow, Flow)
        }

    def carried(self, why_not: str | None) -> Iterator[CopyStats]:
        """Yield what each variant copied so far; `why_not` says why none was timed."""
        is_gpu = self._device == "cuda"
        for way, flow in self._flows.items():
            if isinstance(flow, str):
                yield CopyStats(way=way, why_not=why_not or flow)
                continue
            is_counted = flow.frames > 0 and (is_gpu or way not in (DOWNLOADED, KEPT))
            most, mean = self._apart.get(way, (None, None))
            yield CopyStats(
                way=way,
                up_bytes=flow.carrier.moved_bytes / flow.frames if is_counted else None,
                down_bytes=flow.brought_down_bytes / flow.frames if is_counted else None,
                after_ms=flow.after_ns / 1e6 / flow.frames if is_gpu and flow.frames else None,
                most_apart=most,
                mean_apart=mean,
                why_not=why_not,
            )


def _copied(tensor: torch.Tensor, device: Device) -> torch.Tensor:
    """Return a copy in main memory, which stands in for one on a GPU: as many bytes are moved."""
    return tensor.clone()


def _endless(decoder: Decoder[Any], batch_size: int) -> Generator[Frames, None, None]:
    """Decode the video again and again; yield batches of up to so many frames."""
    job = DecodeJob(tuple(range(len(decoder.index))), goes_on=False)
    while True:
        frames: Iterator[Any] = (frame for _, frame in decoder.run(job))
        while batch := list(islice(frames, batch_size)):
            is_tensor = isinstance(batch[0], torch.Tensor)
            yield torch.stack(batch) if is_tensor else np.stack(batch)
