"""Train a small network with memory on camera streams: how far did the car go since it last looked?

python examples/train_cameras.py nuscenes/ --epochs 20 --checkpoint run.pt
torchrun --nproc_per_node=2 examples/train_cameras.py nuscenes/ --checkpoint run.pt

It reads nuScenes, or a set in its form, and is told by the tables how many metres the car went
forward from each moment to the next. As StreamPETR does, it keeps some queries of each clip, which
have looked at all cameras of a moment, and gives them to the next one; without them it can only
guess. They are kept by slot, with a `CameraLoader` and with a stock DataLoader, whose workers take
turns (`--stock-loader`); `--memory none` and `--memory place` show what that is worth. Stop it at
any moment and start it again with the same checkpoint and as many processes: model, optimizer,
memory and clips go on after the step that was saved last.
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
"""The camera whose frames are the moments."""


def main() -> None:
    """Read the command line, join the other processes if there are any, and train."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "folder", type=Path, help="nuScenes, or a set in its form: samples/, sweeps/ and tables"
    )
    parser.add_argument("--version", default="v1.0-mini", help="folder of its tables (%(default)s)")
    parser.add_argument(
        "--links",
        type=Path,
        default="links",
        help="folder that links to its pictures, one for each camera, are written to (%(default)s)",
    )
    parser.add_argument(
        "--epochs",
        type=positive,
        default=10,
        help="times each clip is seen, earlier runs included (%(default)s)",
    )
    parser.add_argument(
        "--group-num", type=positive, default=2, help="clips in a batch (%(default)s)"
    )
    parser.add_argument(
        "--workers",
        type=positive,
        default=2,
        help="decoding threads, or processes of a stock DataLoader, on each process (%(default)s)",
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
        help="what is remembered of a clip is found by its slot (the default), by its place in the "
        "batch, as loops do that know one worker, or not at all: to compare what they learn",
    )
    parser.add_argument(
        "--tell-steps",
        action="store_true",
        help="each process says of each step which clip:moment it showed, and the loss",
    )
    add_checkpoint_options(parser)
    options = parser.parse_args()
    with joined(parser) as device:
        train(options, device)


def train(options: argparse.Namespace, device: torch.device) -> None:
    """Train, saying after each epoch how it went and whether memory followed the clips."""
    torch.manual_seed(0)
    with reading(options, device) as loader:
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
            epoch, account = loader.epoch, Account(device)
            for batch in loader:
                moment, kept_by = Moment.of(batch, device), kept_by_choice(batch, options.memory)
                before = memory.of(kept_by)
                told, queries = model(moment.frames, moment.valid, before["queries"])
                loss = moment.loss(told)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                memory.keep(kept_by, {"queries": queries.detach(), "clip": moment.clip})
                step += 1
                account.add(loss, moment, before["clip"])
                if options.tell_steps:
                    moment.tell(step, loss)
                checkpoint.after(step)
            account.tell(f"epoch {epoch} step {step}")
        checkpoint.save(step)


class Network(nn.Module):
    """Queries that look at all cameras of a moment, and are remembered until the next one."""

    def __init__(self, cameras: int) -> None:
        super().__init__()
        self.pictures = nn.Sequential(
            nn.Conv2d(3, WIDTH, 8, stride=8), nn.ReLU(), nn.AdaptiveAvgPool2d((2, 3))
        )
        self.of_camera = nn.Parameter(torch.randn(cameras, 1, WIDTH))
        self.queries = nn.Parameter(torch.randn(QUERIES, WIDTH))
        self.look = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.tell = nn.Linear(2 * QUERIES * WIDTH, 1)

    def forward(
        self, frames: torch.Tensor, valid: torch.Tensor, before: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return how far the car went, float32 [N], in metres, and what is remembered.

        Args:
            frames: uint8 [N, C, 3, H, W].
            valid: bool [N, C]: cameras that have a frame; the others are not looked at.
            before: float32 [N, queries, width]: what was remembered.
        """
        clips = len(frames)
        found = self.pictures(frames.flatten(0, 1).float() / 127.5 - 1)
        tokens = found.flatten(2).mT.unflatten(0, valid.shape) + self.of_camera
        tokens = (tokens * valid[..., None, None]).flatten(1, 2)
        queries = self.queries.expand(clips, -1, -1)
        seen, _ = self.look(queries, tokens, tokens, need_weights=False)
        return self.tell(torch.cat([seen, before], 1).flatten(1)).squeeze(1), seen


class Motion:
    """What belongs to a moment: how many metres the car went forward since the one before."""

    def __init__(self, nuscenes: NuScenes) -> None:
        self._nuscenes = nuscenes

    def __call__(self, clip: str, moment: ClipMoment) -> dict[str, float]:
        """Return it, by the car's poses; 0 at a clip's first moment, which does not count."""
        before, now = (
            self._pose(clip, moment, frame) for frame in (max(0, moment.number - 1), moment.number)
        )
        return {"moved": float((before.inverse() @ now)[0, 3])}

    def _pose(self, clip: str, moment: ClipMoment, frame: int) -> torch.Tensor:
        shown = replace(moment, frames={REFERENCE: frame}, cameras=(REFERENCE,))
        pose: torch.Tensor = self._nuscenes.metadata(clip, shown)["ego_to_global"][0]
        return pose


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What the network needs of a batch, on its device."""

    frames: torch.Tensor
    valid: torch.Tensor
    moved: torch.Tensor
    """float32 [N]: metres forward since the moment before."""
    goes_on: torch.Tensor
    """bool [N]: slots that show a clip, and not its first moment: they count."""
    clip: torch.Tensor
    said: str
    """clip:moment of each slot that shows one."""

    @classmethod
    def of(cls, batch: Mapping[str, Any], device: torch.device) -> "Moment":
        """Return it, for a batch of a `CameraLoader` and for one of a stock DataLoader."""
        pairs = zip(batch["clip"].tolist(), batch["index"].tolist(), strict=True)
        moved = torch.tensor([each.get("moved", 0.0) for each in batch["metadata"]])
        return cls(
            frames=batch["frames"].to(device),
            valid=batch["valid"].to(device),
            moved=moved.to(device),
            goes_on=((batch["clip"] >= 0) & ~batch["first_frame"]).to(device),
            clip=batch["clip"].to(device),
            said=" ".join(f"{clip}:{index}" for clip, index in pairs if clip >= 0),
        )

    def loss(self, told: torch.Tensor) -> torch.Tensor:
        """Return how far the motion that was told is off, squared, over the slots that count."""
        off = (told - self.moved).square() * self.goes_on
        return off.sum() / self.goes_on.sum().clamp(min=1)

    def tell(self, step: int, loss: torch.Tensor) -> None:
        """Say what it shows; a line at once, so that those of several processes do not mix."""
        line = f"rank {rank()} step {step} {self.said} {loss.item():.9g}\n"
        print(line, end="", flush=True)


class Account:
    """What an epoch came to, over all processes."""

    def __init__(self, device: torch.device) -> None:
        self._sums = torch.zeros(4, dtype=torch.float64, device=device)

    def add(self, loss: torch.Tensor, moment: Moment, remembered: torch.Tensor) -> None:
        """Count one step; `remembered` int64 [N] is the clip that each memory is of, or -1."""
        counted = moment.goes_on.sum()
        strays = moment.goes_on & (remembered != moment.clip)
        counts = (loss.detach() * counted, counted, (moment.clip >= 0).sum(), strays.sum())
        self._sums += torch.stack([each.to(self._sums) for each in counts])

    def tell(self, where: str) -> None:
        """Let the first process say it."""
        if distributed.is_initialized():
            distributed.all_reduce(self._sums)
        loss, counted, moments, strays = self._sums.tolist()
        if rank() == 0:
            loss /= max(1, counted)
            print(
                f"{where} loss {loss:.5f}, {loss**0.5:.3f} m off: {moments:.0f} moments, "
                f"{strays:.0f} without the memory of their clip",
                flush=True,
            )


def kept_by_choice(batch: Mapping[str, Any], choice: str) -> Mapping[str, Any]:
    """Return a batch as `SlotMemory` is to see it, where memory is not to be kept by slot."""
    if choice == "place":
        return {**batch, "slot": torch.arange(len(batch["slot"]))}
    if choice == "none":
        return {**batch, "first_frame": torch.ones_like(batch["first_frame"])}
    return batch


@contextmanager
def reading(
    options: argparse.Namespace, device: torch.device
) -> Iterator[CameraLoader | StockLoader]:
    """Give what reads the clips, in another order in each epoch."""
    nuscenes = NuScenes.read(options.folder, options.version)
    asked: dict[str, Any] = {
        "layout": nuscenes.link_pictures(options.links),
        "size": tuple(options.size),
        "alignment": Alignment(
            sync="nearest", reference=REFERENCE, times=nuscenes.times, on_missing="mask"
        ),
        "metadata": Motion(nuscenes),
    }
    group_num, workers = options.group_num, options.workers
    if options.stock_loader:
        dataset = CameraStreamDataset(**asked, num_of_set=group_num)
        yield StockLoader(dataset, group_num=group_num, workers=workers)
        return
    with CameraLoader(
        **asked, group_num=group_num, num_threads=workers, shuffle=True, device=device
    ) as loader:
        yield loader


if __name__ == "__main__":
    main()
