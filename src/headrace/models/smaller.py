"""Which model of torchvision sees nearly as well with much less arithmetic."""

from functools import cache
from typing import Final

from torchvision import models

_SHARE: Final = 0.25
"""Of a model's arithmetic that a smaller one has at most: one operation takes up to three times as
long in one model as in another (on a CPU efficientnet_b1, 0.69e9 of them, takes longer than
resnet18, 1.81e9)."""


def smaller_model(name: str) -> str | None:
    """Return the classifier with the best accuracy among those of at most a quarter of the
    arithmetic.

    Accuracy on ImageNet and multiply-adds are those torchvision publishes with its default weights
    (`WeightsEnum.meta`: `acc@1`, `_ops`). None where there is none, or the model is not its own.
    """
    known = _known()
    if name not in known:
        return None
    _, own = known[name]
    smaller = [(accuracy, other) for other, (accuracy, ops) in known.items() if ops <= _SHARE * own]
    return max(smaller)[1] if smaller else None


@cache
def _known() -> dict[str, tuple[float, float]]:
    """Return accuracy in percent and 1e9 multiply-adds of each classifier, quantized ones aside."""
    found = {}
    for name in models.list_models(module=models):
        meta = models.get_model_weights(name).DEFAULT.meta
        found[name] = (float(meta["_metrics"]["ImageNet-1K"]["acc@1"]), float(meta["_ops"]))
    return found
