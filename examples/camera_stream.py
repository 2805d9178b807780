"""Read synchronized cameras as streams, each frame decoded once, alone or on many ranks.

python examples/camera_stream.py --index_file index_frame.json --group_num 4 --num_workers 2
python -m torch.distributed.run --nproc_per_node=2 examples/camera_stream.py \\
    --index_file index_frame.json --group_num 4 --num_workers 2

The model is a stand-in for yours: it remembers what each slot showed, as StreamPETR does, and
forgets it where another clip begins.
"""

import argparse
import os
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter

import torch
from torch import distributed

from headrace import CameraLoader


def main() -> None:
    """Read the command line, join the other ranks if there are any, and read the clips."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index_file", type=Path, required=True)
    parser.add_argument("--group_num", type=int, default=4, help="clips in a batch of each rank")
    parser.add_argument("--num_workers", type=int, default=2, help="decoding threads of each rank")
    parser.add_argument("--size", type=int, nargs=2, default=(256, 704), metavar=("H", "W"))
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--shuffle", action="store_true", help="clips in another order each epoch")
    parser.add_argument("--nvtx", action="store_true", help="mark batches and steps for Nsight")
    options = parser.parse_args()
    if "RANK" in os.environ:  # started by torch.distributed.run
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        train(options)
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


def train(options: argparse.Namespace) -> None:
    """Go through the clips; each rank says how fast it was and what it decoded."""
    rank = distributed.get_rank() if distributed.is_initialized() else 0
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    mark = torch.cuda.nvtx.range if options.nvtx else lambda _: nullcontext()
    model = Memory().to(device)
    with CameraLoader(
        options.index_file,
        group_num=options.group_num,
        size=tuple(options.size),
        workers=options.num_workers,
        shuffle=options.shuffle,
        tail="refill",
        device=device,
        pin_memory=device.type == "cuda",
    ) as loader:
        for _ in range(options.epochs):
            before, started = loader.statistics, perf_counter()
            batches, number = iter(loader), 0
            while True:
                with mark("next batch"):
                    batch = next(batches, None)
                if batch is None:
                    break
                with mark(f"step {number}"):
                    drift = model(batch.frames, batch.first_frame.to(device))
                if distributed.is_initialized():
                    distributed.all_reduce(drift)
                number += 1
            seconds, after = perf_counter() - started, loader.statistics
            frames = after.frames_delivered - before.frames_delivered
            decoded = after.frames_decoded - before.frames_decoded
            print(
                f"rank {rank}: {number} batches, {frames} frames, {frames / seconds:.1f} frames/s, "
                f"decoded / delivered {decoded / frames:.3f}",
                flush=True,
            )


class Memory(torch.nn.Module):
    """Remembers the mean colour of each camera of each slot."""

    def forward(self, frames: torch.Tensor, first_frame: torch.Tensor) -> torch.Tensor:
        """Return how far the colours of a batch are from what is remembered."""
        colours = frames.float().mean((-1, -2))
        remembered = getattr(self, "colours", colours)
        remembered = torch.where(first_frame[:, None, None], colours, remembered)
        self.colours = 0.9 * remembered + 0.1 * colours
        return (colours - remembered).abs().mean()


if __name__ == "__main__":
    main()
