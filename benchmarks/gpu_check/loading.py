"""How fast do batches come that NVDEC decodes, beside those of the CPU, and of both together?

python -m benchmarks.gpu_check.loading frames FOLDER --gpu 0           random frames
python -m benchmarks.gpu_check.loading cameras INDEX --gpu 0           camera streams
python -m benchmarks.gpu_check.loading frames FOLDER --gpu 0 --auto    both together as well
python -m benchmarks.gpu_check.loading frames FOLDER --gpu 0 --kept    frames that stay as well
python -m benchmarks.gpu_check.loading frames FOLDER --gpu 0 --pynvvideocodec   by NVIDIA's library

The batches of all are proved equal, bit by bit, and those that stay within a grey level of the same
tensors made on the CPU; then they are timed in turns, the loader made anew for each. Without --gpu
the CPU stands in for NVDEC, as a rehearsal.
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
"""Frames per second of camera streams reported by the example of accvlab.on_demand_video_decoder
on one A100 (docs/benchmarks.md); the goal is twice this rate."""
_HEADS: Final = ("decoded by", "frames/s", "slowest", "fastest", "ms/frame")

Opener = Callable[[DecoderConfig], AbstractContextManager[Any]]
"""Decoder → loader."""


def opener(kind: str, sources: Sequence[str], size: tuple[int, int], batch_size: int) -> Opener:
    """Return the factory of a kind of loader."""
    if kind == "frames":
        videos = find_videos(sources)
        return lambda how: FrameLoader(videos, batch_size=batch_size, size=size, decoding=how)
    return lambda how: CameraLoader(sources[0], group_num=2, size=size, decoding=how)


def entrants(
    gpu: int | None, *, with_auto: bool, with_kept: bool = False, with_pynvvideocodec: bool = False
) -> dict[str, DecoderConfig]:
    """Return the timed decoders by name; the CPU first."""
    there = DecoderConfig.on_gpu(gpu)
    ways = {"CPU again" if gpu is None else "NVDEC": there}
    if with_pynvvideocodec:
        is_here = gpu is not None
        name = "PyNvVideoCodec" if is_here else "CPU for PyNvVideoCodec"
        ways[name] = replace(there, backend="pynvvideocodec") if is_here else there
    if with_kept:
        ways |= {f"{name}, kept": replace(way, keeps_on_device=True) for name, way in ways.items()}
    return {"CPU": DecoderConfig(), **ways} | (
        {"auto": DecoderConfig(device="auto")} if with_auto else {}
    )


def unequal(open_one: Opener, decoding: DecoderConfig, batches: int) -> int | None:
    """Return the number of the first batch that differs from the CPU's; None: all equal.

    Tensors converted on a GPU may differ by one grey level.
    """
    most = 1 if decoding.stays_on_gpu else 0
    twin = DecoderConfig(keeps_on_device=decoding.keeps_on_device)
    with open_one(twin) as there, open_one(decoding) as here:
        pairs = zip(islice(there, batches), islice(here, batches), strict=True)
        for number, (expected, found) in enumerate(pairs):
            there_is, here_is = expected.frames.int(), found.frames.cpu().int()
            if there_is.shape != here_is.shape or (there_is - here_is).abs().max() > most:
                return number
    return None


def rate(
    open_one: Opener, decoding: DecoderConfig, seconds: float
) -> tuple[float, DeviceCounters | None]:
    """Return frames per second after the first batch, over `seconds` and several epochs.

    Frames decoded ahead of the first batch then matter little. If CPU and GPU share the work, also
    returns the counters of each.
    """
    frames = 0
    with open_one(decoding) as loader:
        batches = chain.from_iterable(repeat(loader))
        next(batches)
        _wait_for(decoding)
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            # All dimensions except H, W and C.
            frames += next(batches).frames.shape[:-3].numel()
        _wait_for(decoding)
        taken = time.monotonic() - started
        return frames / taken, loader.statistics.decoded_by


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
    """Prove, time, print a line of JSON; exit status 1 where batches differ.

    Args:
        kind: of loader
        sources: videos or folders of them; the index of cameras
        gpu: its number; left out: the CPU stands in for it
        auto: both together as well
        kept: frames that stay there as well
        pynvvideocodec: PyNvVideoCodec as well
        size: height and width
        batch_size: frames in a batch
        batches: that are proved equal
        seconds: that a turn takes
        repeats: of each, in turn
    """
    open_one = opener(kind, sources, size, batch_size)
    named = entrants(gpu, with_auto=auto, with_kept=kept, with_pynvvideocodec=pynvvideocodec)
    for name, decoding in [*named.items()][1:]:
        differs = unequal(open_one, decoding, batches)
        if differs is not None:
            sys.exit(f"batch {differs} of {name} differs from the CPU's: nothing was timed")
    turns = interleave([*named], lambda name: rate(open_one, named[name], seconds), repeats=repeats)
    shared = next((by for _, by in reversed(turns) if by is not None), None)
    spreads = {
        name: MedianRange.of([speed for speed, _ in turns[place :: len(named)]])
        for place, name in enumerate(named)
    }
    cpu, *others = (spread.median for spread in spreads.values())
    faster = ", ".join(
        f"{name} is {other / cpu:.2f}" for name, other in zip([*named][1:], others, strict=True)
    )
    said = f"equal batches; {faster} times as fast as the CPU"
    said += f"; auto at last by {shared}" if shared is not None else ""
    if kind == "cameras" and gpu is not None:
        said += f"; the fastest is {max(others) / _PEER:.2f} times the {_PEER:,} frames/s "
        said += "that accvlab's example reports of an A100"
    forms = "{:.1f} {:.1f} {:.1f} {:.3f}"
    rows = [
        (name, *forms.format(s.median, s.lowest, s.highest, 1e3 / s.median).split())
        for name, s in spreads.items()
    ]
    print_reading(said, _HEADS, rows)


if __name__ == "__main__":
    call(main, __doc__)
