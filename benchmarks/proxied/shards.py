"""JPEG shards, as WebDataset and FFCV are fed: each frame a picture in a tar file."""

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace import FrameReader

QUALITY = 90


def write_shards(videos: Sequence[Path], folder: Path, size: tuple[int, int]) -> list[Path]:
    """Write a tar file for each video, a JPEG for each frame."""
    folder.mkdir(parents=True)
    found = [folder / f"{number:04}.tar" for number in range(len(videos))]
    for video, path in zip(videos, found, strict=True):
        with tarfile.open(path, "w") as tar:
            number = 0
            for batch in FrameReader([video], size=size):
                for frame in batch.frames:
                    _add(tar, f"{path.stem}-{number:06}.jpg", frame)
                    number += 1
    return found


def _add(tar: tarfile.TarFile, name: str, frame: NDArray[np.uint8]) -> None:
    coded = io.BytesIO()
    Image.fromarray(frame).save(coded, "JPEG", quality=QUALITY)
    entry = tarfile.TarInfo(name)
    entry.size = coded.tell()
    coded.seek(0)
    tar.addfile(entry, coded)
