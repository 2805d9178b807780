"""What happens to each batch of a run: preprocessing, the model, the annotated video."""

from dataclasses import dataclass
from typing import Any

import torch

from headrace.live.overlay import Overlay
from headrace.live.sinks import VideoFile
from headrace.models.model import Model
from headrace.models.results import Labels
from headrace.models.transfer import transfer
from headrace.preprocess.levels import Preprocess
from headrace.runtime.stage import Stage
from headrace.video.frames import FrameBatch
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A batch that is ready for the model."""

    batch: FrameBatch
    tensor: torch.Tensor
    """float32 [N, 3, H, W], as `Preprocess` gives it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Predicted:
    """A batch and what the model saw in it."""

    batch: FrameBatch
    labels: Labels


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What is left of a batch when its frames are written."""

    first_index: int
    """Index of its first frame in the video."""
    frames: int
    """How many they were."""


def stages_of(
    index: StreamIndex, preprocess: Preprocess, classifier: Model[Labels], video: VideoFile
) -> list[Stage[Any, Any]]:
    """Return the stages that take the batches of a file to its annotated video.

    Times in the video count from the first frame of the file.
    """
    overlay, start_seconds = Overlay(index.info.upright_size), index.seconds(0)

    def prepare(batch: FrameBatch) -> Prepared:
        return Prepared(batch=batch, tensor=preprocess(batch.frames))

    def infer(prepared: Prepared) -> Predicted:
        moved = transfer(prepared.tensor, classifier.compute.device)
        return Predicted(batch=prepared.batch, labels=classifier.run(moved.tensor))

    def show(predicted: Predicted) -> Shown:
        batch, seen = predicted.batch, predicted.labels
        for k, frame in enumerate(batch.frames):
            note = f"{seen.confidence[k][0]:.0%}   #{batch.index[k]}"
            picture = overlay.draw(frame, seen.names[k][0], note)
            video.write(picture, batch.pts_seconds[k] - start_seconds)
        return Shown(first_index=int(batch.index[0]), frames=len(batch))

    return [
        Stage(name="preprocess", function=prepare),
        Stage(name="model", function=infer),
        Stage(name="sink", function=show),
    ]
