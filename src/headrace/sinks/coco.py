"""COCO file of boxes: images, annotations, categories."""

import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO

from headrace.atomic_file import partial_of
from headrace.models.results import Boxes, ClassNames
from headrace.sinks.batch_results import BatchResults
from headrace.sinks.result_rows import box_rows, json_line, writing

NAME: Final = "coco.json"
"""File name in the output folder."""
PARTS: Final = (f"{NAME}.images", f"{NAME}.annotations")
"""Temporary files while the COCO file is written."""
_INFO: Final = {"description": "Boxes found by headrace annotate"}


class CocoFile:
    """COCO file with an entry for every frame, also without boxes: a `ResultSink` of boxes.

    {"info": {...}, "images": [{"id": 1, "file_name": "a.png", "width": 640, "height": 480}, ...],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 18, "bbox": [x, y, width, height],
    "area": 1200.0, "iscrowd": 0, "score": 0.93}, ...], "categories": [{"id": 18, "name": "dog"},
    ...]}

    The file name of a video frame is `a.mp4#7`, with `source`, `frame_index`, `pts` and
    `pts_seconds`. The file appears on close, complete; memory use is constant.
    """

    def __init__(self, folder: Path, sources: Sequence[str], class_names: ClassNames) -> None:
        """Start the file in `folder`.

        Args:
            folder: Output folder.
            sources: Paths of the videos.
            class_names: Categories; without names, the categories are the classes of the boxes.

        Raises:
            ConfigError: the file cannot be written.
        """
        self.name = "boxes for COCO"
        self._path = folder / NAME
        self._sources = tuple(sources)
        self._categories = dict(class_names.items())
        self._is_named = bool(self._categories)
        self._num_images = self._num_boxes = 0
        self._is_complete = False
        self._parts = [partial_of(folder / part) for part in PARTS]
        self._files: list[TextIO] = []
        with writing(self._path, self._clear):
            for part in self._parts:
                self._files.append(part.open("w+", encoding="utf-8"))
            self._files[0].write(f'{{"info": {json.dumps(_INFO)}, "images": [')

    def write(self, results: BatchResults[Boxes]) -> None:
        """Append the frames of a batch: see `ResultSink.write`."""
        images, annotations = self._files
        with writing(self._path, self._clear):
            for location, boxes in box_rows(results, self._sources):
                self._num_images += 1
                image = _image(location, results.size, self._num_images)
                images.write(_entry(image, self._num_images))
                for box in boxes:
                    self._num_boxes += 1
                    annotation = _annotation(box, self._num_boxes, self._num_images)
                    annotations.write(_entry(annotation, self._num_boxes))
                    if not self._is_named:
                        self._categories[box["label_id"]] = box["label"]

    def close(self) -> None:
        """Finish the file, or remove one without frames: see `ResultSink.close`."""
        if not self._files:
            return
        images, annotations = self._files
        categories = [{"id": k, "name": name} for k, name in sorted(self._categories.items())]
        with writing(self._path, self._clear):
            annotations.seek(0)
            images.write('\n], "annotations": [')
            shutil.copyfileobj(annotations, images)
            images.write(f'\n], "categories": {json.dumps(categories, ensure_ascii=False)}}}\n')
            images.close()
            if self._num_images:
                self._parts[0].replace(self._path)
                self._is_complete = True
        self._clear()

    @property
    def note(self) -> str:
        """`boxes: 12 in 5 images`."""
        return f"boxes: {self._num_boxes:,} in {self._num_images:,} images"

    @property
    def outputs(self) -> tuple[str, ...]:
        """The file, once complete."""
        return (NAME,) if self._is_complete else ()

    def _clear(self) -> None:
        files, self._files = self._files, []
        for file in files:
            with suppress(OSError):
                file.close()
        for part in self._parts:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def _entry(value: dict[str, Any], number: int) -> str:
    return f"{',' if number > 1 else ''}\n{json_line(value)}"


def _image(location: dict[str, Any], size: tuple[int, int], number: int) -> dict[str, Any]:
    source, index = location.pop("source"), location.pop("index")
    is_frame = index is not None
    return {
        "id": number,
        "file_name": f"{source}#{index}" if is_frame else source,
        "width": size[1],
        "height": size[0],
        **({"source": source, "frame_index": index, **location} if is_frame else {}),
    }


def _annotation(box: dict[str, Any], number: int, image: int) -> dict[str, Any]:
    left, top, right, bottom = box["xyxy"]
    width, height = right - left, bottom - top
    return {
        "id": number,
        "image_id": image,
        "category_id": box["label_id"],
        "bbox": [round(value, 3) for value in (left, top, width, height)],
        "area": round(width * height, 3),
        "iscrowd": 0,
        "score": round(box["score"], 6),
    }
