"""Read synchronized cameras as streams, each frame decoded once, in one process or on many ranks.

python examples/camera_stream.py --index_file index_frame.json --group_num 4 --num_workers 2
python -m torch.distributed.run --nproc_per_node=2 examples/camera_stream.py \\
    --index_file index_frame.json --group_num 4 --num_workers 2

The model is a placeholder: like StreamPETR it keeps a state per slot, resets it where a clip
starts, and ignores empty slots.
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

RangeMarker = Callable[[str], AbstractContextManager[None]]


def main() -> None:
    """Parse the command line, join the process group, and read the clips."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--index_file",
        type=Path,
        required=True,
        help="JSON file {video_dir: {clip: frame_count}}, as written by `headrace index`",
    )
    parser.add_argument(
        "--group_num", type=positive, default=4, help="clips per batch and rank (%(default)s)"
    )
    parser.add_argument(
        "--num_workers",
        type=positive,
        default=2,
        help="decoding threads per rank, at least 1 (%(default)s)",
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
        "--epochs", type=positive, default=1, help="passes over the clips (%(default)s)"
    )
    parser.add_argument(
        "--tail",
        choices=("pad", "drop", "refill"),
        default="pad",
        help="when clips run out: leave slots empty, so that each frame occurs once (pad, the "
        "default), end the epoch (drop), or repeat clips (refill)",
    )
    parser.add_argument(
        "--decode_on_gpu",
        action="store_true",
        help="decode on the GPU of the rank, and keep the frames there",
    )
    parser.add_argument("--shuffle", action="store_true", help="shuffle the clips in each epoch")
    parser.add_argument(
        "--nvtx", action="store_true", help="mark batches and steps for Nsight Systems"
    )
    options = parser.parse_args()
    mark = nvtx_ranges(parser) if options.nvtx else lambda _: nullcontext()
    with joined(parser) as device:
        train(options, device, mark)


def train(options: argparse.Namespace, device: torch.device, mark: RangeMarker) -> None:
    """Read the clips, and print throughput and decoded frames of each rank."""
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
            before, start = loader.statistics, perf_counter()
            batches, step, moments = iter(loader), 0, set()
            while True:
                with mark("next batch"):
                    batch = next(batches, None)
                if batch is None:
                    break
                with mark(f"step {step}"):
                    has_clip = batch.clip >= 0
                    drift = model(batch.frames, batch.first_frame.to(device), has_clip.to(device))
                    if distributed.is_initialized():
                        distributed.all_reduce(drift)
                step += 1
                moments |= set(
                    zip(batch.clip[has_clip].tolist(), batch.index[has_clip].tolist(), strict=True)
                )
            if device.type == "cuda":
                torch.cuda.synchronize()
            after = loader.statistics
            report(
                Epoch(
                    batches=step,
                    frames=after.frames_delivered - before.frames_delivered,
                    decoded=after.frames_decoded - before.frames_decoded,
                    seconds=perf_counter() - start,
                    moments=moments,
                ),
                cameras=len(loader.cameras),
            )


class Memory(torch.nn.Module):
    """State per slot: the running mean color of each camera."""

    def forward(
        self, frames: torch.Tensor, first_frame: torch.Tensor, has_clip: torch.Tensor
    ) -> torch.Tensor:
        """Return the summed distance between the colors of the frames and the stored ones."""
        colors = frames.float().mean((-1, -2))
        stored = getattr(self, "colors", colors)
        stored = torch.where(first_frame[:, None, None], colors, stored)
        self.colors = 0.9 * stored + 0.1 * colors
        return ((colors - stored).abs() * has_clip[:, None, None]).sum()


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """Statistics of one rank in an epoch."""

    batches: int
    frames: int
    """Delivered frames of all cameras; empty slots have none."""
    decoded: int
    seconds: float
    moments: set[tuple[int, int]]
    """(clip, index) of every delivered moment."""


def report(local: Epoch, cameras: int) -> None:
    """Print the statistics of each rank and the number of repeats, on the first rank."""
    epochs = [local]
    if distributed.is_initialized():
        epochs *= distributed.get_world_size()
        distributed.all_gather_object(epochs, local)
    if rank() != 0:
        return
    for index, epoch in enumerate(epochs):
        ratio = epoch.decoded / epoch.frames if epoch.frames else 0.0
        print(
            f"rank {index}: {epoch.batches} batches, {epoch.frames} frames, "
            f"{epoch.frames / epoch.seconds:.1f} frames/s, decoded / delivered {ratio:.3f}"
        )
    frames = sum(epoch.frames for epoch in epochs)
    unique = cameras * len(set().union(*(epoch.moments for epoch in epochs)))
    rate = unique / max(epoch.seconds for epoch in epochs)
    print(
        f"all ranks: {frames} frames, {frames - unique} of them repeats; "
        f"{rate:.1f} frames/s without repeats",
        flush=True,
    )


def nvtx_ranges(parser: argparse.ArgumentParser) -> RangeMarker:
    """Return the context manager of an NVTX range; exit with an error without CUDA."""
    try:
        torch.cuda.nvtx.mark("camera_stream")
    except RuntimeError as error:
        parser.exit(2, f"{parser.prog}: error: --nvtx needs a PyTorch build with CUDA: {error}\n")
    return torch.cuda.nvtx.range


if __name__ == "__main__":
    main()
