"""Read synchronized cameras as streams, each frame decoded once, alone or on many ranks.

python examples/camera_stream.py --index_file index_frame.json --group_num 4 --num_workers 2
python -m torch.distributed.run --nproc_per_node=2 examples/camera_stream.py \\
    --index_file index_frame.json --group_num 4 --num_workers 2

The model is a stand-in for yours: it remembers what each slot showed, as StreamPETR does, forgets
it where another clip begins, and leaves out slots that have nothing to show.
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
    """Go through the clips; say of each rank how fast it was and what it decoded."""
    model = Memory().to(device)
    there = DecoderConfig(device=f"cuda:{device.index or 0}", keeps_on_device=True)
    with CameraLoader(
        options.index_file,
        group_num=options.group_num,
        size=tuple(options.size),
        num_threads=options.num_workers,
        shuffle=options.shuffle,
        tail=options.tail,
        decoding=there if options.decode_on_gpu else None,
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
            tell(
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
    """Remembers the mean colour of each camera of each slot."""

    def forward(
        self, frames: torch.Tensor, first_frame: torch.Tensor, is_shown: torch.Tensor
    ) -> torch.Tensor:
        """Return how far the colours that are shown are, in sum, from what is remembered."""
        colours = frames.float().mean((-1, -2))
        remembered = getattr(self, "colours", colours)
        remembered = torch.where(first_frame[:, None, None], colours, remembered)
        self.colours = 0.9 * remembered + 0.1 * colours
        return ((colours - remembered).abs() * is_shown[:, None, None]).sum()


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """What one rank did in an epoch."""

    batches: int
    frames: int
    """Pictures, one for each camera; those of empty slots are none."""
    decoded: int
    seconds: float
    moments: set[tuple[int, int]]
    """(clip, index) of all that was shown."""


def tell(mine: Epoch, cameras: int) -> None:
    """Let the first rank say what each did, and how much of it all was a repeat."""
    epochs = [mine]
    if distributed.is_initialized():
        epochs *= distributed.get_world_size()
        distributed.all_gather_object(epochs, mine)
    if rank() != 0:
        return
    for number, each in enumerate(epochs):
        ratio = each.decoded / each.frames if each.frames else 0.0
        print(
            f"rank {number}: {each.batches} batches, {each.frames} frames, "
            f"{each.frames / each.seconds:.1f} frames/s, decoded / delivered {ratio:.3f}"
        )
    frames = sum(each.frames for each in epochs)
    different = cameras * len(set().union(*(each.moments for each in epochs)))
    rate = different / max(each.seconds for each in epochs)
    print(
        f"all ranks: {frames} frames, {frames - different} of them repeats; "
        f"{rate:.1f} frames/s without repeats",
        flush=True,
    )


def nvtx_ranges(parser: argparse.ArgumentParser) -> Mark:
    """Return what marks a part of the timeline, or end with a line that says why there is none."""
    try:
        torch.cuda.nvtx.mark("camera_stream")
    except RuntimeError as error:
        parser.exit(
            2, f"{parser.prog}: error: --nvtx needs a torch that is built for CUDA: {error}\n"
        )
    return torch.cuda.nvtx.range


if __name__ == "__main__":
    main()
