"""Train a small network on random frames: it learns to tell which video a frame is from.

python examples/train_frames.py videos/*.mp4 --epochs 3 --checkpoint run.pt
torchrun --nproc_per_node=2 examples/train_frames.py videos/*.mp4

The label is a stand-in for yours; all else is how a training loop looks. Stop it at any moment and
start it again with the same checkpoint: it goes on with the next batch, also with another number
of processes.
"""

import argparse
import os
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from headrace import FrameLoader, Permutation


def main() -> None:
    """Read the command line, join the other processes if there are any, and train."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("videos", nargs="+", type=Path)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=32, help="on each process")
    parser.add_argument("--size", type=int, default=112, help="height and width of a frame")
    parser.add_argument("--memory", default="256MiB", help="for decoded frames, on each process")
    parser.add_argument("--checkpoint", type=Path, help="written after each epoch and 20 steps")
    options = parser.parse_args()
    if "RANK" in os.environ:  # started by torchrun
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        train(options)
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


def train(options: argparse.Namespace) -> None:
    """Train, saying every tenth step how it goes."""
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = network(classes=len(options.videos)).to(device)
    if distributed.is_initialized():
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    is_first = not distributed.is_initialized() or distributed.get_rank() == 0

    with FrameLoader(
        options.videos,
        batch_size=options.batch_size,
        size=(options.size, options.size),
        sampling=Permutation(),
        memory_budget=options.memory,
        device=device,
    ) as loader:
        step = resume(options.checkpoint, model, optimizer, loader)
        while loader.epoch < options.epochs:
            epoch = loader.epoch
            for batch in loader:
                loss = cross_entropy(model(normalized(batch.frames)), batch.video.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                if is_first and (step == 1 or step % 10 == 0):
                    print(f"epoch {epoch} step {step} loss {loss.item():.3f}")
                if is_first and options.checkpoint and step % 20 == 0:
                    save(options.checkpoint, step, model, optimizer, loader)
        if is_first:
            if options.checkpoint:
                save(options.checkpoint, step, model, optimizer, loader)
            found = loader.statistics
            print(
                f"{found.frames_delivered} frames, {found.amplification:.2f} decoded for each; "
                f"waited {found.starved_seconds:.1f} s for frames"
            )


def network(classes: int) -> nn.Module:
    """Return a small convolutional network."""
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, classes))


def normalized(frames: torch.Tensor) -> torch.Tensor:
    """Return uint8 frames in [0, 255] as float32 in [-1, 1]."""
    return frames.float() / 127.5 - 1


def save(
    path: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, loader: FrameLoader
) -> None:
    """Write all that is needed to go on; a run that dies while writing keeps the old file."""
    state = {
        "step": step,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "loader": loader.state_dict(),
    }
    written = path.with_suffix(".new")
    torch.save(state, written)
    written.replace(path)


def resume(
    path: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer, loader: FrameLoader
) -> int:
    """Take up what an earlier run left; return how many steps it did."""
    if path is None or not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    loader.load_state_dict(state["loader"])
    return int(state["step"])


if __name__ == "__main__":
    main()
