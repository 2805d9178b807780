"""Train a small 3-D network on random clips: it learns to tell which video a clip is from.

python examples/train_clips.py videos/*.mp4 --epochs 20 --checkpoint run.pt
torchrun --nproc_per_node=2 examples/train_clips.py videos/*.mp4

The label is a stand-in for yours; all else is how a training loop looks. Stop it at any moment and
start it again with the same checkpoint: it goes on with the next batch.
"""

import argparse
import os
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from headrace import ClipLoader, RandomClips


def main() -> None:
    """Read the command line, join the other processes if there are any, and train."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("videos", nargs="+", type=Path)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=4, help="clips on each process")
    parser.add_argument("--num-frames", type=int, default=8)
    parser.add_argument("--stride", type=int, default=2)
    parser.add_argument("--size", type=int, default=56, help="height and width of a frame")
    parser.add_argument("--checkpoint", type=Path, help="written after each epoch")
    options = parser.parse_args()
    if "RANK" in os.environ:  # started by torchrun
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        train(options)
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


def train(options: argparse.Namespace) -> None:
    """Train, saying after each epoch how it goes."""
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Network(classes=len(options.videos)).to(device)
    if distributed.is_initialized():
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    is_first = not distributed.is_initialized() or distributed.get_rank() == 0

    with ClipLoader(
        options.videos,
        clips=RandomClips(num_frames=options.num_frames, stride=options.stride),
        batch_size=options.batch_size,
        size=(options.size, options.size),
        memory_budget="256MiB",
        device=device,
    ) as loader:
        resume(options.checkpoint, model, optimizer, loader)
        while loader.epoch < options.epochs:
            epoch, losses = loader.epoch, []
            for batch in loader:
                clips = batch.frames.float() / 127.5 - 1
                loss = cross_entropy(model(clips), batch.video.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            if is_first:
                print(f"epoch {epoch} loss {sum(losses) / len(losses):.3f}")
                if options.checkpoint:
                    save(options.checkpoint, model, optimizer, loader)


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


def save(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, loader: ClipLoader
) -> None:
    """Write all that is needed to go on; a run that dies while writing keeps the old file."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "loader": loader.state_dict(),
    }
    written = path.with_suffix(".new")
    torch.save(state, written)
    written.replace(path)


def resume(
    path: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer, loader: ClipLoader
) -> None:
    """Take up what an earlier run left."""
    if path is None or not path.exists():
        return
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    loader.load_state_dict(state["loader"])


if __name__ == "__main__":
    main()
