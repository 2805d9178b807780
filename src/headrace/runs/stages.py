"""What happens to each batch of a run: preprocessing, the transfer, the model, the sinks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.models.compute import Device
from headrace.models.model import Model
from headrace.models.split_model import SplitModule
from headrace.models.transfer import Copy, copy_for, transfer
from headrace.preprocess.levels import Preprocess
from headrace.profiling.stage_records import Role
from headrace.runtime.stage import Stage
from headrace.sinks.batch_results import ClassifiedBatch, DetectedBatch, SinkOf, seen_in
from headrace.video.frames import FrameBatch

SOURCE: Final[Role] = "decode"
"""What the source of a run is called, and does."""
CLIPS: Final = "clips"
PREPROCESS: Final = "preprocess"
TO_MODEL: Final = "transfer to the model"
TO_SINKS: Final = "transfer to the sinks"
CROSSING: Final = "transfer inside the model"
STAGE_ROLES: Final[dict[str, Role]] = {
    SOURCE: "decode",
    "preprocess": "preprocess",
    "transfer": "transfer",
    TO_MODEL: "transfer",
    TO_SINKS: "transfer",
    CROSSING: "transfer",
    "model": "model",
    "model, first part": "model",
    "model, second part": "model",
    "sink": "sink",
    CLIPS: "preprocess",
    "show": "sink",
}
"""What the stages of a run are called, and do; the last two those of a live one alone."""


class Transfer:
    """Takes frames, batches or what is inside a model to a device, and counts their bytes."""

    def __init__(self, device: Device, copy: Copy | None = None) -> None:
        """Carry nothing yet; `copy` does it, a slow one in a test. None: as is best there."""
        self.device = device
        """Where to: the CPU means down from a GPU."""
        self._copy = copy or copy_for(device)
        self.moved_bytes = 0
        """Bytes that were copied so far."""

    @property
    def record(self) -> dict[str, Any]:
        """What it carried and where, as fields of a `StageRecord`."""
        return {"moved_bytes": self.moved_bytes, "moved_to": self.device}

    def carry(self, data: torch.Tensor | NDArray[np.uint8]) -> torch.Tensor:
        """Return the data on the device."""
        moved = transfer(data, self.device, copy=self._copy)
        self.moved_bytes += moved.bytes_copied
        return moved.tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class Carriers:
    """Where something is carried to another device; None where it lies there already."""

    frames: Transfer | None = None
    """Before preprocessing: decoded frames, one byte a number."""
    batches: Transfer | None = None
    """Between preprocessing and the model, four bytes a number."""
    crossing: Transfer | None = None
    """Between the parts of a model that is split; there, even if both run on the CPU."""
    pictures: Transfer | None = None
    """Behind preprocessing: frames that stayed where they were decoded, for sinks that show them.
    None: no sink does."""

    @classmethod
    def of(
        cls,
        model: Model[Any],
        *,
        prep_on_gpu: bool,
        are_kept: bool = False,
    ) -> "Carriers":
        """Return what a model needs that is ready, and preprocessed for here or on the GPU.

        Frames that are kept where they were decoded are preprocessed there: none is carried.
        """
        prep_device: Device = "cuda" if prep_on_gpu else "cpu"
        entry = model.compute.entry_device
        is_split = model.compute.split_layer is not None
        return cls(
            frames=Transfer("cuda") if prep_on_gpu and not are_kept else None,
            batches=None if entry == prep_device else Transfer(entry),
            crossing=Transfer(model.compute.device) if is_split else None,
        )

    def by_stage(self) -> dict[str, Transfer]:
        """Return name of the stage -> what carries there."""
        batches = "transfer" if self.frames is None else TO_MODEL
        named = {
            "transfer": self.frames,
            TO_SINKS: self.pictures,
            CROSSING: self.crossing,
            batches: self.batches,
        }
        return {name: carrier for name, carrier in named.items() if carrier}

    def moved_bytes(self) -> dict[str, int]:
        """Return name of the stage -> bytes that it carried."""
        return {name: carrier.moved_bytes for name, carrier in self.by_stage().items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedBatch:
    """A batch on its way to the model."""

    batch: FrameBatch
    tensor: torch.Tensor
    """float32 [N, 3, H, W], as `Preprocess` gives it; before that the frames, uint8 [N, H, W, 3],
    where they are preprocessed on another device."""
    kept: torch.Tensor | None = None
    """The frames, where they stayed on a device and are brought down for the sinks."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SplitBatch:
    """A batch between the two parts of a model."""

    batch: FrameBatch
    values: tuple[Any, ...]
    """What the second part takes."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What is left of a batch when its frames are written."""

    video: int
    """Place of its video among those that are read."""
    first_index: int
    """Index of its first frame in the video."""
    frames: int
    """How many they were."""
    decode_seconds: float
    """How long decoding them took."""


def stages_of(
    preprocess: Preprocess, carriers: Carriers, model: Model[Any], sinks: Sequence[SinkOf[Any]]
) -> list[Stage[Any, Any]]:
    """Return the stages that take the batches of a file to its sinks.

    There is a transfer where there is something to carry to another device, and two stages for a
    model that is split. Frames that stayed on a device are let go when they are preprocessed, or
    brought down. The sinks are of the kind of the model's results: labels or boxes.
    """

    def prepare(given: FrameBatch | PreparedBatch) -> PreparedBatch:
        frames: Any = given.frames if isinstance(given, FrameBatch) else given.tensor
        tensor = preprocess(frames)
        if tensor.is_cuda:  # the work is done when this returns, so that it is timed here
            torch.cuda.current_stream(tensor.device).synchronize()
        if isinstance(given, PreparedBatch):
            return PreparedBatch(batch=given.batch, tensor=tensor)
        if isinstance(frames, np.ndarray):
            return PreparedBatch(batch=given, tensor=tensor)
        kept = frames if carriers.pictures else None
        return PreparedBatch(batch=given.places, tensor=tensor, kept=kept)

    def show(seen: ClassifiedBatch | DetectedBatch) -> Shown:
        for sink in sinks:
            sink.write(seen)
        batch = seen.batch
        return Shown(
            video=batch.video,
            first_index=int(batch.index[0]),
            frames=len(batch),
            decode_seconds=batch.decode_seconds,
        )

    back = "transfer" if carriers.frames is None else TO_MODEL
    return [
        *(
            [Stage(name="transfer", function=_uploading(carriers.frames))]
            if carriers.frames
            else []
        ),
        Stage(name="preprocess", function=prepare),
        *(
            [Stage(name=TO_SINKS, function=_showing(carriers.pictures))]
            if carriers.pictures
            else []
        ),
        *([Stage(name=back, function=_carrying(carriers.batches))] if carriers.batches else []),
        *_inference(model, carriers.crossing),
        Stage(name="sink", function=show),
    ]


def _uploading(carrier: Transfer) -> Callable[[FrameBatch], PreparedBatch]:
    return lambda batch: PreparedBatch(batch=batch, tensor=carrier.carry(batch.frames))


def _showing(carrier: Transfer) -> Callable[[PreparedBatch], PreparedBatch]:
    def bring_down(given: PreparedBatch) -> PreparedBatch:
        assert given.kept is not None
        frames = carrier.carry(given.kept).numpy()
        return PreparedBatch(batch=replace(given.batch, frames=frames), tensor=given.tensor)

    return bring_down


def _carrying(carrier: Transfer) -> Callable[[PreparedBatch], PreparedBatch]:
    return lambda given: PreparedBatch(batch=given.batch, tensor=carrier.carry(given.tensor))


def _inference(model: Model[Any], crossing: Transfer | None) -> list[Stage[Any, Any]]:
    split = model.module
    if crossing is None or not isinstance(split, SplitModule):
        return [
            Stage(
                name="model",
                function=lambda given: seen_in(given.batch, model.run(given.tensor)),
            )
        ]

    def begin(given: PreparedBatch) -> SplitBatch:
        with model.computing():
            return SplitBatch(batch=given.batch, values=split.begin(given.tensor))

    def cross(given: SplitBatch) -> SplitBatch:
        values = tuple(
            crossing.carry(value) if isinstance(value, torch.Tensor) else value
            for value in given.values
        )
        return SplitBatch(batch=given.batch, values=values)

    def finish(given: SplitBatch) -> ClassifiedBatch | DetectedBatch:
        with model.computing():
            return seen_in(given.batch, model.output(split.finish(given.values)))

    return [
        Stage(name="model, first part", function=begin),
        Stage(name=CROSSING, function=cross),
        Stage(name="model, second part", function=finish),
    ]
