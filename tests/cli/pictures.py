"""Pictures in order, as a folder of a data set holds them."""

from pathlib import Path

import numpy as np
from PIL import Image


def write_pictures(folder: Path, count: int, size: tuple[int, int] = (48, 64)) -> Path:
    """Write grey pictures 00000.jpg, 00001.jpg, ..., each brighter than the one before."""
    folder.mkdir(parents=True)
    for number in range(count):
        grey = np.full((*size, 3), number * 9, np.uint8)
        Image.fromarray(grey).save(folder / f"{number:05d}.jpg")
    return folder
