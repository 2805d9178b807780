"""How many frames per second do loaders deliver with NVDEC, with the CPU, and with both?

python -m benchmarks.gpu_check.loading frames FOLDER --gpu 0           # random frames
python -m benchmarks.gpu_check.loading cameras INDEX --gpu 0           # camera streams
python -m benchmarks.gpu_check.loading frames FOLDER --gpu 0 --auto    # also both together
python -m benchmarks.gpu_check.loading frames FOLDER --gpu 0 --kept    # also frames left on the GPU
python -m benchmarks.gpu_check.loading frames FOLDER --gpu 0 --pynvvideocodec   # also by NVIDIA

Before timing, batches are compared with the CPU's: bit for bit, or within one gray level if they
stay on the GPU. Then all decoders are timed, interleaved, with a new loader for each repeat.
Without --gpu, the CPU takes the place of NVDEC, as a rehearsal.
"""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain, islice, repeat
from typing import Any, Final, Literal

import torch

from benchmarks.command_line import call
from benchmarks.gpu_check.step import print_reading
from headrace import CameraLoader, DecoderConfig, DeviceCounters, FrameLoader, find_videos
from headrace.measuring.interleaved import MedianRange, interleave

_PEER: Final = 2481.54
"""Frames per second of camera streams on one A100, as the example of
accvlab.on_demand_video_decoder reports (docs/benchmarks.md); the goal is twice this rate."""
_HEADS: Final = ("decoded by", "frames/s", "slowest", "fastest", "ms/frame")

Opener = Callable[[DecoderConfig], AbstractContextManager[Any]]
"""Decoder → loader."""


def opener(kind: str, sources: Sequence[str], size: tuple[int, int], batch_size: int) -> Opener:
    """Return a function that opens a kind of loader."""
    if kind == "frames":
        videos = find_videos(sources)
        return lambda config: FrameLoader(videos, batch_size=batch_size, size=size, decoding=config)
    return lambda config: CameraLoader(sources[0], group_num=2, size=size, decoding=config)


def entrants(
    gpu: int | None, *, with_auto: bool, with_kept: bool = False, with_pynvvideocodec: bool = False
) -> dict[str, DecoderConfig]:
    """Return the decoders to time by name, with the CPU first."""
    on_gpu = DecoderConfig.on_gpu(gpu)
    decoders = {"CPU again" if gpu is None else "NVDEC": on_gpu}
    if with_pynvvideocodec and gpu is None:
        decoders["CPU for PyNvVideoCodec"] = on_gpu
    elif with_pynvvideocodec:
        decoders["PyNvVideoCodec"] = replace(on_gpu, backend="pynvvideocodec")
    if with_kept:
        decoders |= {f"{n}, kept": replace(d, keeps_on_device=True) for n, d in decoders.items()}
    return {"CPU": DecoderConfig(), **decoders} | (
        {"auto": DecoderConfig(device="auto")} if with_auto else {}
    )


def unequal(open_one: Opener, decoding: DecoderConfig, batches: int) -> int | None:
    """Return the number of the first batch that differs from the CPU's; None: all equal.

    Frames converted to RGB on a GPU may differ by one gray level.
    """
    tolerance = 1 if decoding.stays_on_gpu else 0
    on_cpu = DecoderConfig(keeps_on_device=decoding.keeps_on_device)
    with open_one(on_cpu) as reference, open_one(decoding) as loader:
        pairs = zip(islice(reference, batches), islice(loader, batches), strict=True)
        for number, (expected, batch) in enumerate(pairs):
            right, frames = expected.frames.int(), batch.frames.cpu().int()
            if right.shape != frames.shape or (right - frames).abs().max() > tolerance:
                return number
    return None


def rate(
    open_one: Opener, decoding: DecoderConfig, seconds: float
) -> tuple[float, DeviceCounters | None]:
    """Return frames per second after the first batch, and the counters of CPU and GPU.

    The time spans several epochs, so frames decoded ahead of the first batch matter little. The
    counters are None unless both devices share the work.
    """
    frames = 0
    with open_one(decoding) as loader:
        batches = chain.from_iterable(repeat(loader))
        next(batches)
        _wait_for(decoding)
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            # The product of all dimensions except H, W and C.
            frames += next(batches).frames.shape[:-3].numel()
        _wait_for(decoding)
        elapsed = time.monotonic() - started
        return frames / elapsed, loader.statistics.decoded_by


def _wait_for(decoding: DecoderConfig) -> None:
    if decoding.stays_on_gpu:
        torch.cuda.synchronize(decoding.device)


def main(
    kind: Literal["frames", "cameras"],
    sources: tuple[str, ...],
    *,
    gpu: int | None = None,
    auto: bool = False,
    kept: bool = False,
    pynvvideocodec: bool = False,
    size: tuple[int, int] = (256, 704),
    batch_size: int = 32,
    batches: int = 30,
    seconds: float = 2.0,
    repeats: int = 3,
) -> None:
    """Compare and time the decoders and print JSON; exit with status 1 if batches differ.

    Args:
        kind: kind of loader
        sources: videos or folders of videos; for cameras, their index file
        gpu: number of the GPU; without it, the CPU takes its place
        auto: also time the CPU and the GPU together
        kept: also time frames that stay on the GPU
        pynvvideocodec: also time PyNvVideoCodec
        size: height and width of frames
        batch_size: frames in a batch
        batches: batches to compare
        seconds: min seconds per repeat
        repeats: repeats per decoder
    """
    open_one = opener(kind, sources, size, batch_size)
    decoders = entrants(gpu, with_auto=auto, with_kept=kept, with_pynvvideocodec=pynvvideocodec)
    for name, decoding in [*decoders.items()][1:]:
        differs = unequal(open_one, decoding, batches)
        if differs is not None:
            sys.exit(f"batch {differs} of {name} differs from the CPU's: nothing was timed")
    repetitions = interleave(
        [*decoders], lambda name: rate(open_one, decoders[name], seconds), repeats=repeats
    )
    shared = next((counters for _, counters in reversed(repetitions) if counters is not None), None)
    spreads = {
        name: MedianRange.of([speed for speed, _ in repetitions[number :: len(decoders)]])
        for number, name in enumerate(decoders)
    }
    cpu, *others = (spread.median for spread in spreads.values())
    faster = ", ".join(
        f"{name} is {other / cpu:.2f}" for name, other in zip([*decoders][1:], others, strict=True)
    )
    said = f"equal batches; {faster} times as fast as the CPU"
    said += f"; last auto run: {shared}" if shared is not None else ""
    if kind == "cameras" and gpu is not None:
        said += f"; the fastest is {max(others) / _PEER:.2f} times the {_PEER:,} frames/s "
        said += "that accvlab's example reports on an A100"
    forms = "{:.1f} {:.1f} {:.1f} {:.3f}"
    rows = [
        (name, *forms.format(s.median, s.lowest, s.highest, 1e3 / s.median).split())
        for name, s in spreads.items()
    ]
    print_reading(said, _HEADS, rows)


if __name__ == "__main__":
    call(main, __doc__)
