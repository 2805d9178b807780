"""Train a small 3-D network on random clips to classify the video that a clip is from.

python examples/train_clips.py videos/*.mp4 --epochs 20 --checkpoint run.pt
torchrun --nproc_per_node=2 examples/train_clips.py videos/*.mp4 --checkpoint run.pt

Replace the label by your own; the rest is a usual training loop. Stop it at any moment and start it
again with the same checkpoint: it resumes with the batch after the last checkpoint, also with
another number of processes. A kill loses at most `--save-every` steps, which are repeated on the
same clips.
"""

import argparse
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from common import Checkpoint, add_checkpoint_options, joined, positive, rank
from headrace import ClipLoader, RandomClips


def main() -> None:
    """Parse the command line, join the process group, and train."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("videos", nargs="+", type=Path, help="video files, one class each")
    parser.add_argument(
        "--epochs",
        type=positive,
        default=10,
        help="clips per video, earlier runs included (%(default)s)",
    )
    parser.add_argument(
        "--batch-size", type=positive, default=4, help="clips per process (%(default)s)"
    )
    parser.add_argument(
        "--num-frames", type=positive, default=8, help="frames per clip (%(default)s)"
    )
    parser.add_argument(
        "--stride",
        type=positive,
        default=2,
        help="stride of the frames in a clip (%(default)s)",
    )
    parser.add_argument(
        "--size",
        type=positive,
        default=56,
        help="height and width of a frame in pixels (%(default)s)",
    )
    add_checkpoint_options(parser)
    options = parser.parse_args()
    with joined(parser) as device:
        train(options, device)


def train(options: argparse.Namespace, device: torch.device) -> None:
    """Train, and print each epoch's mean loss over the steps of this run."""
    torch.manual_seed(0)
    network = Network(classes=len(options.videos)).to(device)
    model = DistributedDataParallel(network) if distributed.is_initialized() else network
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)

    with ClipLoader(
        options.videos,
        clips=RandomClips(num_frames=options.num_frames, stride=options.stride),
        batch_size=options.batch_size,
        size=(options.size, options.size),
        memory_budget="256MiB",
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
            epoch, losses = loader.epoch, []
            for batch in loader:
                clips = batch.frames.float() / 127.5 - 1
                loss = cross_entropy(model(clips), batch.video.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                step += 1
                checkpoint.after(step)
            if rank() == 0:
                mean = sum(losses) / len(losses)
                print(f"epoch {epoch} step {step} loss {mean:.3f}", flush=True)
        checkpoint.save(step)


class Network(nn.Module):
    """Convolutions over time, height and width."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv3d(3, 16, (2, 5, 5), stride=(1, 3, 3)),
            nn.ReLU(),
            nn.Conv3d(16, 32, (2, 3, 3), stride=(1, 2, 2)),
            nn.ReLU(),
            nn.AdaptiveAvgPool3d((1, 2, 2)),
            nn.Flatten(),
            nn.Linear(32 * 4, classes),
        )

    def forward(self, clips: torch.Tensor) -> torch.Tensor:
        """Return float32 [N, classes] for clips of float32 [N, T, 3, H, W]."""
        scores: torch.Tensor = self.layers(clips.movedim(1, 2))
        return scores


if __name__ == "__main__":
    main()
