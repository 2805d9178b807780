"""Train a small network with memory on camera streams to predict the distance driven per moment.

python examples/train_cameras.py nuscenes/ --epochs 20 --checkpoint run.pt
torchrun --nproc_per_node=2 examples/train_cameras.py nuscenes/ --checkpoint run.pt

It reads nuScenes, or a data set in its format; the distance comes from the poses in the tables.
Like StreamPETR, the network stores queries per clip, which attended to all cameras of a moment, and
uses them at the next moment; without them it can only guess. The memory is indexed by slot, with a
`CameraLoader` and with a stock DataLoader, whose workers alternate (`--stock-loader`); `--memory
none` and `--memory place` show the loss without it. Stop it at any time and start it again with the
same checkpoint and number of processes: model, optimizer, memory and clips resume after the last
saved step.
"""

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from common import Checkpoint, add_checkpoint_options, joined, positive, rank
from headrace import (
    Alignment,
    CameraLoader,
    CameraStreamDataset,
    ClipMoment,
    NuScenes,
    SlotMemory,
)
from stock_cameras import StockLoader

QUERIES, WIDTH = 8, 32
REFERENCE = "CAM_FRONT"
"""Camera whose frames are the moments."""


def main() -> None:
    """Parse the command line, join the process group, and train."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "folder", type=Path, help="folder of nuScenes, or of a data set in its format"
    )
    parser.add_argument("--version", default="v1.0-mini", help="folder of the tables (%(default)s)")
    parser.add_argument(
        "--links",
        type=Path,
        default="links",
        help="folder for links to the images, by camera (%(default)s)",
    )
    parser.add_argument(
        "--epochs",
        type=positive,
        default=10,
        help="passes over the clips, earlier runs included (%(default)s)",
    )
    parser.add_argument(
        "--group-num", type=positive, default=2, help="clips per batch (%(default)s)"
    )
    parser.add_argument(
        "--workers",
        type=positive,
        default=2,
        help="decoding threads, or workers of a stock DataLoader, per process (%(default)s)",
    )
    parser.add_argument(
        "--size",
        type=positive,
        nargs=2,
        default=(64, 96),
        metavar=("H", "W"),
        help="height and width of a frame in pixels (64 96)",
    )
    parser.add_argument("--stock-loader", action="store_true", help="read with a stock DataLoader")
    parser.add_argument(
        "--memory",
        choices=("slot", "place", "none"),
        default="slot",
        help="index of the memory: slot (the default); position in the batch, which is right for "
        "one worker only; or no memory, for comparison",
    )
    parser.add_argument(
        "--print-steps",
        action="store_true",
        help="print clip:moment of each slot, and the loss, per step and process",
    )
    add_checkpoint_options(parser)
    options = parser.parse_args()
    with joined(parser) as device:
        train(options, device)


def train(options: argparse.Namespace, device: torch.device) -> None:
    """Train, and print the loss and the number of moments with a wrong memory per epoch."""
    torch.manual_seed(0)
    with open_loader(options, device) as loader:
        network = Network(len(loader.cameras)).to(device)
        model = DistributedDataParallel(network) if distributed.is_initialized() else network
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
        memory = SlotMemory(
            {
                "queries": torch.zeros(QUERIES, WIDTH, device=device),
                "clip": torch.tensor(-1, device=device),
            }
        )
        checkpoint = Checkpoint(
            path=options.checkpoint,
            every=options.save_every,
            network=network,
            optimizer=optimizer,
            loader=loader,
            memory=memory,
        )
        step = checkpoint.resume(device)
        while loader.epoch < options.epochs:
            epoch, epoch_loss = loader.epoch, EpochLoss(device)
            for batch in loader:
                moment = Moment.of(batch, device)
                indexed = replace_slots(batch, options.memory)
                before = memory.of(indexed)
                predicted, queries = model(moment.frames, moment.valid, before["queries"])
                loss = moment.loss(predicted)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                memory.keep(indexed, {"queries": queries.detach(), "clip": moment.clip})
                step += 1
                epoch_loss.add(loss, moment, before["clip"])
                if options.print_steps:
                    moment.report(step, loss)
                checkpoint.after(step)
            epoch_loss.report(f"epoch {epoch} step {step}")
        checkpoint.save(step)


class Network(nn.Module):
    """Queries that attend to all cameras of a moment, and are stored for the next moment."""

    def __init__(self, cameras: int) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, WIDTH, 8, stride=8), nn.ReLU(), nn.AdaptiveAvgPool2d((2, 3))
        )
        self.camera_embedding = nn.Parameter(torch.randn(cameras, 1, WIDTH))
        self.queries = nn.Parameter(torch.randn(QUERIES, WIDTH))
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.head = nn.Linear(2 * QUERIES * WIDTH, 1)

    def forward(
        self, frames: torch.Tensor, valid: torch.Tensor, before: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the distance driven, float32 [N] in meters, and the queries to store.

        Args:
            frames: uint8 [N, C, 3, H, W].
            valid: bool [N, C]; cameras without a frame are masked.
            before: float32 [N, queries, width], the stored queries.
        """
        clips = len(frames)
        features = self.backbone(frames.flatten(0, 1).float() / 127.5 - 1)
        tokens = features.flatten(2).mT.unflatten(0, valid.shape) + self.camera_embedding
        tokens = (tokens * valid[..., None, None]).flatten(1, 2)
        queries = self.queries.expand(clips, -1, -1)
        attended, _ = self.attention(queries, tokens, tokens, need_weights=False)
        return self.head(torch.cat([attended, before], 1).flatten(1)).squeeze(1), attended


class Motion:
    """Metadata of a moment: meters driven forward since the previous moment."""

    def __init__(self, nuscenes: NuScenes) -> None:
        self._nuscenes = nuscenes

    def __call__(self, clip: str, moment: ClipMoment) -> dict[str, float]:
        """Return {"moved": meters} from the car's poses; 0 at a clip's first moment."""
        before, now = (
            self._pose(clip, moment, frame) for frame in (max(0, moment.number - 1), moment.number)
        )
        return {"moved": float((before.inverse() @ now)[0, 3])}

    def _pose(self, clip: str, moment: ClipMoment, frame: int) -> torch.Tensor:
        at_frame = replace(moment, frames={REFERENCE: frame}, cameras=(REFERENCE,))
        pose: torch.Tensor = self._nuscenes.metadata(clip, at_frame)["ego_to_global"][0]
        return pose


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Inputs and targets of a batch, on the device of the network."""

    frames: torch.Tensor
    valid: torch.Tensor
    moved: torch.Tensor
    """float32 [N]: meters driven forward since the previous moment."""
    has_loss: torch.Tensor
    """bool [N]: slots with a clip, except at its first moment."""
    clip: torch.Tensor
    names: str
    """clip:moment of each slot that is not empty."""

    @classmethod
    def of(cls, batch: Mapping[str, Any], device: torch.device) -> "Moment":
        """Return the tensors of a batch of a `CameraLoader` or a stock DataLoader."""
        pairs = zip(batch["clip"].tolist(), batch["index"].tolist(), strict=True)
        moved = torch.tensor([metadata.get("moved", 0.0) for metadata in batch["metadata"]])
        return cls(
            frames=batch["frames"].to(device),
            valid=batch["valid"].to(device),
            moved=moved.to(device),
            has_loss=((batch["clip"] >= 0) & ~batch["first_frame"]).to(device),
            clip=batch["clip"].to(device),
            names=" ".join(f"{clip}:{index}" for clip, index in pairs if clip >= 0),
        )

    def loss(self, predicted: torch.Tensor) -> torch.Tensor:
        """Return the mean squared error of the distance over the slots with a loss."""
        errors = (predicted - self.moved).square() * self.has_loss
        return errors.sum() / self.has_loss.sum().clamp(min=1)

    def report(self, step: int, loss: torch.Tensor) -> None:
        """Print a line in one write, so that lines of several processes do not interleave."""
        line = f"rank {rank()} step {step} {self.names} {loss.item():.9g}\n"
        print(line, end="", flush=True)


class EpochLoss:
    """Loss and counts of an epoch, over all processes."""

    def __init__(self, device: torch.device) -> None:
        self._sums = torch.zeros(4, dtype=torch.float64, device=device)

    def add(self, loss: torch.Tensor, moment: Moment, memory_clip: torch.Tensor) -> None:
        """Add one step; `memory_clip` int64 [N] is the clip of each stored memory, or -1."""
        losses = moment.has_loss.sum()
        is_wrong = moment.has_loss & (memory_clip != moment.clip)
        counts = (loss.detach() * losses, losses, (moment.clip >= 0).sum(), is_wrong.sum())
        self._sums += torch.stack([count.to(self._sums) for count in counts])

    def report(self, prefix: str) -> None:
        """Print the loss and the counts, on the first process."""
        if distributed.is_initialized():
            distributed.all_reduce(self._sums)
        loss, losses, moments, wrong = self._sums.tolist()
        if rank() == 0:
            loss /= max(1, losses)
            print(
                f"{prefix} loss {loss:.5f}, {loss**0.5:.3f} m off: {moments:.0f} moments, "
                f"{wrong:.0f} without the memory of their clip",
                flush=True,
            )


def replace_slots(batch: Mapping[str, Any], choice: str) -> Mapping[str, Any]:
    """Return the batch with slots by which `SlotMemory` indexes by position, or always resets."""
    if choice == "place":
        return {**batch, "slot": torch.arange(len(batch["slot"]))}
    if choice == "none":
        return {**batch, "first_frame": torch.ones_like(batch["first_frame"])}
    return batch


@contextmanager
def open_loader(
    options: argparse.Namespace, device: torch.device
) -> Iterator[CameraLoader | StockLoader]:
    """Yield the loader of the clips, which are shuffled in each epoch."""
    nuscenes = NuScenes.read(options.folder, options.version)
    arguments: dict[str, Any] = {
        "layout": nuscenes.link_pictures(options.links),
        "size": tuple(options.size),
        "alignment": Alignment(
            sync="nearest", reference=REFERENCE, times=nuscenes.times, on_missing="mask"
        ),
        "metadata": Motion(nuscenes),
    }
    group_num, workers = options.group_num, options.workers
    if options.stock_loader:
        dataset = CameraStreamDataset(**arguments, num_of_set=group_num)
        yield StockLoader(dataset, group_num=group_num, workers=workers)
        return
    with CameraLoader(
        **arguments, group_num=group_num, num_threads=workers, shuffle=True, device=device
    ) as loader:
        yield loader


if __name__ == "__main__":
    main()
