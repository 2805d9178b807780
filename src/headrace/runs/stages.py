"""What happens to each batch of a run: preprocessing, the transfer, the model, the sinks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from headrace.models.compute import Device
from headrace.models.model import Model
from headrace.models.results import Labels
from headrace.models.transfer import Copy, copy_for, transfer
from headrace.preprocess.levels import Preprocess
from headrace.profiling.stages import Role
from headrace.runtime.stage import Stage
from headrace.sinks.seen import Seen, Sink
from headrace.video.frames import FrameBatch

SOURCE: Final[Role] = "decode"
"""What the source of a run is called, and does."""


class Carrier:
    """Takes batches to the device of the model, and counts their bytes."""

    def __init__(self, device: Device, copy: Copy | None = None) -> None:
        """Carry nothing yet; `copy` does it, a slow one in a test. None: as is best there."""
        self._device = device
        self._copy = copy or copy_for(device)
        self.moved_bytes = 0
        """Bytes that were copied so far."""

    def carry(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor on the device."""
        moved = transfer(tensor, self._device, copy=self._copy)
        self.moved_bytes += moved.bytes_copied
        return moved.tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A batch that is ready for the model."""

    batch: FrameBatch
    tensor: torch.Tensor
    """float32 [N, 3, H, W], as `Preprocess` gives it."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What is left of a batch when its frames are written."""

    first_index: int
    """Index of its first frame in the video."""
    frames: int
    """How many they were."""
    decode_seconds: float
    """How long decoding them took."""


def stages_of(
    preprocess: Preprocess,
    carrier: Carrier | None,
    model: Model[Labels],
    sinks: Sequence[Sink],
) -> list[Stage[Any, Any]]:
    """Return the stages that take the batches of a file to its sinks, called by their roles.

    There is a transfer where there is something to carry batches to another device.
    """

    def prepare(batch: FrameBatch) -> Prepared:
        return Prepared(batch=batch, tensor=preprocess(batch.frames))

    def carry(prepared: Prepared) -> Prepared:
        assert carrier is not None
        return Prepared(batch=prepared.batch, tensor=carrier.carry(prepared.tensor))

    def infer(prepared: Prepared) -> Seen:
        return Seen(batch=prepared.batch, labels=model.run(prepared.tensor))

    def show(seen: Seen) -> Shown:
        for sink in sinks:
            sink.write(seen)
        batch = seen.batch
        return Shown(
            first_index=int(batch.index[0]),
            frames=len(batch),
            decode_seconds=batch.decode_seconds,
        )

    return [
        Stage(name="preprocess", function=prepare),
        *([Stage(name="transfer", function=carry)] if carrier else []),
        Stage(name="model", function=infer),
        Stage(name="sink", function=show),
    ]
