"""Train a small network on random frames to classify the video that a frame is from.

python examples/train_frames.py videos/*.mp4 --epochs 3 --checkpoint run.pt
torchrun --nproc_per_node=2 examples/train_frames.py videos/*.mp4 --checkpoint run.pt

Replace the label by your own; the rest is a usual training loop. Stop it at any moment and start it
again with the same checkpoint: it resumes with the batch after the last checkpoint, also with
another number of processes. A kill loses at most `--save-every` steps, which are repeated on the
same frames.
"""

import argparse
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from common import Checkpoint, add_checkpoint_options, joined, positive, rank
from headrace import FrameLoader, ShuffledFrames


def main() -> None:
    """Parse the command line, join the process group, and train."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("videos", nargs="+", type=Path, help="video files, one class each")
    parser.add_argument(
        "--epochs",
        type=positive,
        default=1,
        help="passes over the frames, earlier runs included (%(default)s)",
    )
    parser.add_argument(
        "--batch-size", type=positive, default=32, help="frames per process (%(default)s)"
    )
    parser.add_argument(
        "--size",
        type=positive,
        default=112,
        help="height and width of a frame in pixels (%(default)s)",
    )
    parser.add_argument(
        "--memory",
        default="256MiB",
        help="memory budget per process, such as 1GiB (%(default)s)",
    )
    add_checkpoint_options(parser)
    options = parser.parse_args()
    with joined(parser) as device:
        train(options, device)


def train(options: argparse.Namespace, device: torch.device) -> None:
    """Train, and print every tenth step."""
    torch.manual_seed(0)
    network = small_network(classes=len(options.videos)).to(device)
    model = DistributedDataParallel(network) if distributed.is_initialized() else network
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)

    with FrameLoader(
        options.videos,
        batch_size=options.batch_size,
        size=(options.size, options.size),
        sampling=ShuffledFrames(),
        memory_budget=options.memory,
        device=device,
    ) as loader:
        checkpoint = Checkpoint(
            path=options.checkpoint,
            every=options.save_every,
            network=network,
            optimizer=optimizer,
            loader=loader,
        )
        step = checkpoint.resume(device)
        while loader.epoch < options.epochs:
            epoch = loader.epoch
            for batch in loader:
                loss = cross_entropy(model(normalized(batch.frames)), batch.video.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                if rank() == 0 and (step == 1 or step % 10 == 0):
                    print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)
                checkpoint.after(step)
        checkpoint.save(step)
        statistics = loader.statistics
        if rank() == 0:
            print(
                f"{statistics.frames_delivered} frames, "
                f"{statistics.amplification:.2f} decoded per frame; "
                f"waited {statistics.starved_seconds:.1f} s for frames",
                flush=True,
            )


def small_network(classes: int) -> nn.Module:
    """Return a small convolutional network."""
    layers: list[nn.Module] = []
    for channels, new_channels in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(channels, new_channels, 3, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, classes))


def normalized(frames: torch.Tensor) -> torch.Tensor:
    """Return uint8 frames in [0, 255] as float32 in [-1, 1]."""
    return frames.float() / 127.5 - 1


if __name__ == "__main__":
    main()
