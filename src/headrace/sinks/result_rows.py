"""Predictions and boxes as rows of files: JSON lines, or a Parquet table."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from headrace.models.results import Boxes, Labels
from headrace.sinks.batch_results import BatchResults
from headrace.sinks.row_files import LineFile, TableFile, check_parquet

RowFormat = Literal["jsonl", "parquet"]
TABLES: Final = ("predictions.parquet", "boxes.parquet")
"""Names of the tables in the output folder."""
_LOCATION: Final = {
    "source": "string",
    "index": "int64",
    "pts": "int64",
    "pts_seconds": "float64",
}
_ARRIVAL: Final = {
    "segment": "int64",
    "arrival_time": "timestamp",
    "capture_time": "timestamp",
}
_LABEL: Final = {"label": "string", "confidence": "float64"}
_TOP_K: Final = {"labels": "[string]", "confidences": "[float64]"}
_CORNERS: Final = ("x1", "y1", "x2", "y2")
_BOX: Final = {
    "label_id": "int64",
    "label": "string",
    "score": "float32",
    **dict.fromkeys(_CORNERS, "float32"),
}


def check_table(*, of_boxes: bool) -> None:
    """Raise BackendError if the extra for tables is not installed."""
    if of_boxes:
        check_parquet("a table of boxes", "give --no-parquet for coco.json alone")
    else:
        check_parquet("a table of predictions", "leave out --predictions for JSON lines")


def open_predictions(
    kind: RowFormat, folder: Path, sources: Sequence[str], *, top_k: int, is_live: bool = False
) -> LineFile | TableFile:
    """Return the sink of the predictions, a row per frame.

    {"source": "a.mp4", "index": 7, "pts": 21000, "pts_seconds": 0.233333, "label": "cat",
    "confidence": 0.91}

    See `BatchResults.locations` for the first values. With `top_k` above 1, `labels` and
    `confidences` list the classes, the likeliest first.

    Args:
        kind: Format of the file.
        folder: Output folder.
        sources: Names of the sources.
        top_k: Number of classes per frame.
        is_live: Whether each frame has an `Arrival`.

    Raises:
        BackendError: pyarrow is missing, for a table.
        ConfigError: the file cannot be written.
    """

    def rows(results: BatchResults[Labels]) -> list[dict[str, Any]]:
        return list(_label_rows(results, sources, top_k))

    if kind == "jsonl":
        return LineFile(folder / "predictions.jsonl", rows, name="predictions")
    check_table(of_boxes=False)
    columns = _LOCATION | (_ARRIVAL if is_live else {}) | _LABEL | (_TOP_K if top_k > 1 else {})
    return TableFile(folder / TABLES[0], columns, rows, name="predictions")


def _label_rows(
    results: BatchResults[Labels], sources: Sequence[str], top_k: int
) -> Iterator[dict[str, Any]]:
    labels = results.output
    locations = results.locations(sources)
    for row, names, scores in zip(locations, labels.names, labels.confidence, strict=True):
        confidences = [round(score, 6) for score in scores]
        row |= {"label": names[0], "confidence": confidences[0]}
        yield row | ({"labels": [*names], "confidences": confidences} if top_k > 1 else {})


def open_boxes(
    kind: RowFormat, folder: Path, sources: Sequence[str], *, is_live: bool = False
) -> LineFile | TableFile:
    """Return the sink of the boxes: JSON lines of frames, or a table with a row per box.

    {"source": "a.mp4", "index": 7, "pts": 21000, "pts_seconds": 0.233333, "boxes": [{"label_id":
    18, "label": "dog", "score": 0.93, "xyxy": [left, top, right, bottom]}]}

    In the table, x1, y1, x2, y2 are left, top, right, bottom. Arguments and errors: see
    `open_predictions`.
    """
    if kind == "jsonl":

        def lines(results: BatchResults[Boxes]) -> list[dict[str, Any]]:
            return [location | {"boxes": boxes} for location, boxes in box_rows(results, sources)]

        return LineFile(folder / "boxes.jsonl", lines, name="boxes")

    def rows(results: BatchResults[Boxes]) -> list[dict[str, Any]]:
        return [  # pyarrow ignores `xyxy`, which has no column
            location | box | dict(zip(_CORNERS, box["xyxy"], strict=True))
            for location, boxes in box_rows(results, sources)
            for box in boxes
        ]

    check_table(of_boxes=True)
    columns = _LOCATION | (_ARRIVAL if is_live else {}) | _BOX
    return TableFile(folder / TABLES[1], columns, rows, name="boxes as a table")


def box_rows(
    results: BatchResults[Boxes], sources: Sequence[str]
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield the location and the boxes of each frame, the most confident first.

    A box has `label_id`, `label`, `score` in [0, 1], and `xyxy`: left, top, right, bottom, in
    pixels of the upright frame.
    """
    boxes = results.output
    for k, location in enumerate(results.locations(sources)):
        yield (
            location,
            [
                {"label_id": number, "label": label, "score": score, "xyxy": xyxy}
                for number, label, score, xyxy in zip(
                    boxes.classes[k].tolist(),
                    boxes.labels[k],
                    boxes.scores[k].tolist(),
                    boxes.xyxy[k].tolist(),
                    strict=True,
                )
            ],
        )
