"""Stages of a run of files: preprocessing, transfers, model, sinks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.models.compute import Device
from headrace.models.device import Copy, copy_for
from headrace.models.model import Model
from headrace.models.split_model import SplitModule
from headrace.preprocess.levels import Preprocess
from headrace.profiling.run_records import Role
from headrace.runtime.stage import Stage
from headrace.sinks.batch_results import BatchResults, ResultSink
from headrace.video.frames import FrameBatch

SOURCE: Final[Role] = "decode"
"""Name and role of the source."""
CLIPS: Final = "clips"
PREPROCESS: Final = "preprocess"
TO_MODEL: Final = "transfer to the model"
TO_SINKS: Final = "transfer to the sinks"
CROSSING: Final = "transfer inside the model"
STAGE_ROLES: Final[dict[str, Role]] = {
    SOURCE: "decode",
    PREPROCESS: "preprocess",
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
"""Stage name → role; the last two are only in live runs."""


class Transfer:
    """Copy to one device, which counts the copied bytes."""

    def __init__(self, device: Device, copy: Copy | None = None) -> None:
        """Prepare the copies. `copy` is the copy function; None: the fastest for the device."""
        self.device = device
        """Destination; `cpu` means from a GPU."""
        self._copy = copy or copy_for(device)
        self.moved_bytes = 0
        """Bytes copied so far."""

    @property
    def record(self) -> dict[str, Any]:
        """Copied bytes and destination: fields of a `StageRecord`."""
        return {"moved_bytes": self.moved_bytes, "moved_to": self.device}

    def carry(self, data: torch.Tensor | NDArray[np.uint8]) -> torch.Tensor:
        """Return the data on the device."""
        tensor = torch.from_numpy(data) if isinstance(data, np.ndarray) else data
        moved = self._copy(tensor, self.device)
        self.moved_bytes += 0 if moved is tensor else moved.nbytes
        return moved


@dataclass(frozen=True, kw_only=True, eq=False)
class Transfers:
    """Transfers of a run; None: the data is already on the device."""

    frames: Transfer | None = None
    """Decoded frames to the device that preprocesses them, one byte per value."""
    batches: Transfer | None = None
    """Preprocessed batches to the model, four bytes per value."""
    crossing: Transfer | None = None
    """Values from the first to the second part of a split model, even if both run on the CPU."""
    to_sinks: Transfer | None = None
    """Frames from the decoder's device to the sinks; None: no copy, or no sink needs frames."""

    @classmethod
    def of(
        cls,
        model: Model[Any],
        *,
        prep_on_gpu: bool,
        keeps_frames: bool = False,
    ) -> "Transfers":
        """Return the transfers of a run.

        Args:
            model: Model on its device.
            prep_on_gpu: Whether the GPU preprocesses.
            keeps_frames: Whether decoded frames are already on this GPU.
        """
        prep_device: Device = "cuda" if prep_on_gpu else "cpu"
        entry = model.compute.entry_device
        is_split = model.compute.split_layer is not None
        return cls(
            frames=Transfer("cuda") if prep_on_gpu and not keeps_frames else None,
            batches=None if entry == prep_device else Transfer(entry),
            crossing=Transfer(model.compute.device) if is_split else None,
        )

    def by_stage(self) -> dict[str, Transfer]:
        """Return stage name -> transfer."""
        batches = "transfer" if self.frames is None else TO_MODEL
        named = {
            "transfer": self.frames,
            TO_SINKS: self.to_sinks,
            CROSSING: self.crossing,
            batches: self.batches,
        }
        return {name: transfer for name, transfer in named.items() if transfer}


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedBatch:
    """Batch before the model."""

    batch: FrameBatch
    tensor: torch.Tensor
    """Before preprocessing: uint8 [N, H, W, 3] on the device that preprocesses. After it: float32
    [N, 3, H, W]."""
    device_frames: torch.Tensor | None = None
    """Frames to copy for the sinks, uint8 [N, H, W, 3] on the decoder's device; None: no copy."""


SplitBatch = tuple[FrameBatch, tuple[Any, ...]]
"""Batch between the two parts of a split model, and the arguments of the second part."""


def stages_of(
    preprocess: Preprocess, transfers: Transfers, model: Model[Any], sinks: Sequence[ResultSink]
) -> list[Stage[Any, Any]]:
    """Return the stages between the reader and the sinks.

    Each transfer is a stage; a split model has two model stages. Frames on a device are released
    after preprocessing, or copied to the CPU for the sinks. The last stage writes the results of
    the model (labels or boxes) to the sinks, and returns fields of the `Step`.
    """

    def prepare(item: FrameBatch | PreparedBatch) -> PreparedBatch:
        frames: Any = item.frames if isinstance(item, FrameBatch) else item.tensor
        tensor = preprocess(frames)
        if tensor.is_cuda:  # wait, so that this stage includes the GPU work
            torch.cuda.current_stream(tensor.device).synchronize()
        if isinstance(item, PreparedBatch):
            return PreparedBatch(batch=item.batch, tensor=tensor)
        if isinstance(frames, np.ndarray):
            return PreparedBatch(batch=item, tensor=tensor)
        device_frames = frames if transfers.to_sinks else None
        return PreparedBatch(batch=item.places, tensor=tensor, device_frames=device_frames)

    def write(results: BatchResults[Any]) -> dict[str, Any]:
        for sink in sinks:
            sink.write(results)
        batch = results.batch
        return {
            "input": batch.video,
            "first_index": int(batch.index[0]),
            "frames": len(batch),
            "work_ms": {SOURCE: batch.decode_seconds * 1e3},
        }

    stages: list[Stage[Any, Any]] = []
    if transfers.frames:
        stages.append(Stage(name="transfer", function=partial(_upload, transfers.frames)))
    stages.append(Stage(name=PREPROCESS, function=prepare))
    if transfers.to_sinks:
        stages.append(Stage(name=TO_SINKS, function=partial(_download, transfers.to_sinks)))
    if transfers.batches:
        name = "transfer" if transfers.frames is None else TO_MODEL
        stages.append(Stage(name=name, function=partial(_move, transfers.batches)))
    return [*stages, *_model_stages(model, transfers.crossing), Stage(name="sink", function=write)]


def _upload(transfer: Transfer, batch: FrameBatch) -> PreparedBatch:
    return PreparedBatch(batch=batch, tensor=transfer.carry(batch.frames))


def _download(transfer: Transfer, item: PreparedBatch) -> PreparedBatch:
    assert item.device_frames is not None
    frames = transfer.carry(item.device_frames).numpy()
    return PreparedBatch(batch=replace(item.batch, frames=frames), tensor=item.tensor)


def _move(transfer: Transfer, item: PreparedBatch) -> PreparedBatch:
    return PreparedBatch(batch=item.batch, tensor=transfer.carry(item.tensor))


def _model_stages(model: Model[Any], crossing: Transfer | None) -> list[Stage[Any, Any]]:
    split = model.module
    if crossing is None or not isinstance(split, SplitModule):

        def infer(item: PreparedBatch) -> BatchResults[Any]:
            return BatchResults(batch=item.batch, output=model.run(item.tensor))

        return [Stage(name="model", function=infer)]

    def run_first_part(item: PreparedBatch) -> SplitBatch:
        with model.computing():
            return item.batch, split.begin(item.tensor)

    def cross(item: SplitBatch) -> SplitBatch:
        batch, values = item
        return batch, tuple(
            crossing.carry(value) if isinstance(value, torch.Tensor) else value for value in values
        )

    def run_second_part(item: SplitBatch) -> BatchResults[Any]:
        batch, values = item
        with model.computing():
            return BatchResults(batch=batch, output=model.output(split.finish(values)))

    return [
        Stage(name="model, first part", function=run_first_part),
        Stage(name=CROSSING, function=cross),
        Stage(name="model, second part", function=run_second_part),
    ]
