"""The loops beside `headrace extract features`, and their model with weights in a file.

Each is a command: weights, frames per second, output folder, videos.
"""

from pathlib import Path

import torch
from torchvision.models import MobileNet_V2_Weights, mobilenet_v2
from torchvision.transforms import v2

NAME = "mobilenet_v2"
WIDTH = 1280
"""Numbers of a feature: what its classifier is given."""


def write_weights(path: Path) -> None:
    """Write weights that follow from a seed: what they are changes nothing that is timed."""
    torch.manual_seed(0)
    torch.save(mobilenet_v2(weights=None).state_dict(), path)


def pooled(weights: Path) -> torch.nn.Module:
    """Return the model up to what its classifier is given: float32 [N, 1280]."""
    model = mobilenet_v2(weights=None)
    model.load_state_dict(torch.load(weights, weights_only=True))
    model.classifier = torch.nn.Identity()
    model.eval()
    found: torch.nn.Module = model
    return found


_PRESET = MobileNet_V2_Weights.DEFAULT.transforms()
TRANSFORM = v2.Compose(
    [
        v2.Resize(_PRESET.resize_size, interpolation=_PRESET.interpolation, antialias=True),
        v2.CenterCrop(_PRESET.crop_size),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(_PRESET.mean, _PRESET.std),
    ]
)
"""uint8 [N, 3, H, W] → float32 [N, 3, 224, 224]: what `headrace` calls medium, which resizes uint8
as it is, where torchvision's own preset goes by float32 and takes longer."""
