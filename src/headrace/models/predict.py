"""What a classifier sees: its first choice for each frame, and how sure it is."""

from dataclasses import dataclass

import torch

from headrace.errors import BackendError
from headrace.models.load import Classifier


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The first choice for each frame of a batch."""

    labels: tuple[str, ...]
    """Name of the class, or its number where the weights have no names."""
    confidence: tuple[float, ...]
    """Softmax probability of that class, 0 to 1."""


def predict(classifier: Classifier, batch: torch.Tensor) -> Prediction:
    """Run the model on float32 [N, 3, H, W]; back when the result is on the CPU."""
    with torch.inference_mode():
        probabilities = classifier.module(batch.to(classifier.device)).softmax(dim=1)
        confidence, numbers = probabilities.max(dim=1)
        return Prediction(
            labels=tuple(classifier.label(k) for k in numbers.tolist()),
            confidence=tuple(confidence.tolist()),
        )


def warm_up(classifier: Classifier, batch_size: int) -> None:
    """Run the model once on zeros, so that the first real batch does not pay for its set-up.

    Raises:
        BackendError: the model cannot run there with batches of this size.
    """
    side = classifier.input.crop
    try:
        predict(classifier, torch.zeros(batch_size, 3, side, side))
    except RuntimeError as error:
        raise BackendError(
            f"{classifier.name} cannot run on {classifier.device} with batches of {batch_size}: "
            f"{str(error).splitlines()[0]}; use a smaller --batch-size or another --device"
        ) from error
