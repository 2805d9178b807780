"""Pictures with what a detector found drawn onto them, one for each that is read."""

from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace.errors import ConfigError
from headrace.extraction.image_reader import PictureBatch
from headrace.sinks.painting import BoxPainter
from headrace.sinks.predictions import writing
from headrace.sinks.seen import Found
from headrace.text_file import partial_of

FOLDER: Final = "annotated"
"""In the folder of a run."""
_FORMATS: Final = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
_QUALITY: Final = 90


class AnnotatedPictures:
    """Writes each picture with its boxes under its own name: a `SinkOf[Found]`.

    The format is that of the name's suffix. Each file is there whole or not at all.
    """

    def __init__(self, folder: Path) -> None:
        """Nothing is written before the first picture; files that lie there are replaced.

        Args:
            folder: In which `FOLDER` is made.
        """
        self._folder = folder
        self._has_written = False

    def write(self, seen: Found) -> None:
        """Draw and write the pictures of a batch: see `SinkOf.write`."""
        batch = seen.batch
        if not isinstance(batch, PictureBatch):
            raise ConfigError("pictures are annotated here, got frames of a video")
        height, width = batch.frames.shape[1:3]
        drawn = BoxPainter((height, width)).paint(seen)
        for picture, pixels in zip(batch.pictures, drawn, strict=True):
            path = self._folder / FOLDER / picture.name
            partial = partial_of(path)
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                partial.write_bytes(_encoded(pixels, path))
                partial.replace(path)
            self._has_written = True

    def close(self) -> None:
        """Nothing is open: see `SinkOf.close`."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Their folder, if it holds one."""
        return (f"{FOLDER}/",) if self._has_written else ()


def _encoded(pixels: NDArray[np.uint8], path: Path) -> bytes:
    kind = _FORMATS[path.suffix.lower()]
    options: dict[str, Any] = {} if kind == "PNG" else {"quality": _QUALITY}
    with BytesIO() as file:
        Image.fromarray(pixels).save(file, kind, **options)
        return file.getvalue()
