"""Read synchronized cameras as streams, each frame decoded once, alone or on many ranks.

python examples/camera_stream.py --index_file index_frame.json --group_num 4 --num_workers 2
python -m torch.distributed.run --nproc_per_node=2 examples/camera_stream.py \\
    --index_file index_frame.json --group_num 4 --num_workers 2

The model is a stand-in: it keeps a state for each slot, as StreamPETR does, resets it where another
clip starts, and ignores empty slots.
"""

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch
from torch import distributed

from common import joined, positive, rank
from headrace import CameraLoader, DecoderConfig

Mark = Callable[[str], AbstractContextManager[None]]


def main() -> None:
    """Read the command line, join the other ranks if there are any, and read the clips."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--index_file",
        type=Path,
        required=True,
        help="JSON of {video_dir: {clip: frame_count}}, as `headrace index` writes it",
    )
    parser.add_argument(
        "--group_num", type=positive, default=4, help="clips in a batch of each rank (%(default)s)"
    )
    parser.add_argument(
        "--num_workers",
        type=positive,
        default=2,
        help="decoding threads of each rank, at least 1 (%(default)s)",
    )
    parser.add_argument(
        "--size",
        type=positive,
        nargs=2,
        default=(256, 704),
        metavar=("H", "W"),
        help="height and width of a frame in pixels (256 704)",
    )
    parser.add_argument(
        "--epochs", type=positive, default=1, help="times the clips are read (%(default)s)"
    )
    parser.add_argument(
        "--tail",
        choices=("pad", "drop", "refill"),
        default="pad",
        help="when clips run out: pad leaves slots empty, so that each frame comes once (the "
        "default); drop ends the epoch; refill reads clips again, and those frames are repeats",
    )
    parser.add_argument(
        "--decode_on_gpu",
        action="store_true",
        help="decode on the GPU that the rank trains on; frames stay there",
    )
    parser.add_argument("--shuffle", action="store_true", help="clips in another order each epoch")
    parser.add_argument(
        "--nvtx", action="store_true", help="mark batches and steps for Nsight Systems"
    )
    options = parser.parse_args()
    mark = nvtx_ranges(parser) if options.nvtx else lambda _: nullcontext()
    with joined(parser) as device:
        train(options, device, mark)


def train(options: argparse.Namespace, device: torch.device, mark: Mark) -> None:
    """Read the clips, and report the throughput and decoded frames of each rank."""
    model = Memory().to(device)
    on_device = DecoderConfig(device=f"cuda:{device.index or 0}", keeps_on_device=True)
    with CameraLoader(
        options.index_file,
        group_num=options.group_num,
        size=tuple(options.size),
        num_threads=options.num_workers,
        shuffle=options.shuffle,
        tail=options.tail,
        decoding=on_device if options.decode_on_gpu else None,
        device=device,
        pin_memory=device.type == "cuda" and not options.decode_on_gpu,
    ) as loader:
        for _ in range(options.epochs):
            before, started = loader.statistics, perf_counter()
            batches, number, moments = iter(loader), 0, set()
            while True:
                with mark("next batch"):
                    batch = next(batches, None)
                if batch is None:
                    break
                with mark(f"step {number}"):
                    is_shown = batch.clip >= 0
                    drift = model(batch.frames, batch.first_frame.to(device), is_shown.to(device))
                    if distributed.is_initialized():
                        distributed.all_reduce(drift)
                number += 1
                moments |= set(
                    zip(batch.clip[is_shown].tolist(), batch.index[is_shown].tolist(), strict=True)
                )
            if device.type == "cuda":
                torch.cuda.synchronize()
            after = loader.statistics
            report(
                Epoch(
                    batches=number,
                    frames=after.frames_delivered - before.frames_delivered,
                    decoded=after.frames_decoded - before.frames_decoded,
                    seconds=perf_counter() - started,
                    moments=moments,
                ),
                cameras=len(loader.cameras),
            )


class Memory(torch.nn.Module):
    """State of a slot: the mean color of each camera."""

    def forward(
        self, frames: torch.Tensor, first_frame: torch.Tensor, is_shown: torch.Tensor
    ) -> torch.Tensor:
        """Return the summed distance of the shown colors from the stored ones."""
        colors = frames.float().mean((-1, -2))
        stored = getattr(self, "colors", colors)
        stored = torch.where(first_frame[:, None, None], colors, stored)
        self.colors = 0.9 * stored + 0.1 * colors
        return ((colors - stored).abs() * is_shown[:, None, None]).sum()


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """Figures of one rank in an epoch."""

    batches: int
    frames: int
    """Delivered frames, one for each camera; empty slots have none."""
    decoded: int
    seconds: float
    moments: set[tuple[int, int]]
    """(clip, index) of every delivered moment."""


def report(own: Epoch, cameras: int) -> None:
    """Print, on the first rank, the figures of each rank and the share of repeats."""
    epochs = [own]
    if distributed.is_initialized():
        epochs *= distributed.get_world_size()
        distributed.all_gather_object(epochs, own)
    if rank() != 0:
        return
    for number, epoch in enumerate(epochs):
        ratio = epoch.decoded / epoch.frames if epoch.frames else 0.0
        print(
            f"rank {number}: {epoch.batches} batches, {epoch.frames} frames, "
            f"{epoch.frames / epoch.seconds:.1f} frames/s, decoded / delivered {ratio:.3f}"
        )
    frames = sum(epoch.frames for epoch in epochs)
    different = cameras * len(set().union(*(epoch.moments for epoch in epochs)))
    rate = different / max(epoch.seconds for epoch in epochs)
    print(
        f"all ranks: {frames} frames, {frames - different} of them repeats; "
        f"{rate:.1f} frames/s without repeats",
        flush=True,
    )


def nvtx_ranges(parser: argparse.ArgumentParser) -> Mark:
    """Return the function that marks a range, or exit with an error without CUDA."""
    try:
        torch.cuda.nvtx.mark("camera_stream")
    except RuntimeError as error:
        parser.exit(
            2, f"{parser.prog}: error: --nvtx needs a torch that is built for CUDA: {error}\n"
        )
    return torch.cuda.nvtx.range


if __name__ == "__main__":
    main()
