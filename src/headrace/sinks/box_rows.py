"""Where a box was found, as rows that tables and lists are written from."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from headrace.extraction.image_reader import PictureBatch
from headrace.sinks.seen import Arrival, Found
from headrace.video.frames import FrameBatch


@dataclass(frozen=True, kw_only=True)
class BoxRow:
    """One box."""

    label_id: int
    label: str
    score: float
    """0 to 1."""
    xyxy: tuple[float, float, float, float]
    """Left, top, right, bottom, in pixels of the upright frame."""


@dataclass(frozen=True, kw_only=True)
class FrameRow:
    """One frame of a video, or one picture."""

    source: str
    """Path of the video or picture; bytes of it that are no text spelt out, as `\\udcff`."""
    index: int | None
    """Place of the frame in its video; None: a picture, which has none."""
    pts: int | None
    """Ticks of the video's time base."""
    pts_seconds: float | None
    size: tuple[int, int]
    """(height, width) of the upright frame, pixels."""
    boxes: tuple[BoxRow, ...]
    """The surest first."""
    arrival: Arrival | None
    """Of a live run; None at full speed."""

    @property
    def place(self) -> dict[str, Any]:
        """Source, index, pts and pts_seconds; in a live run also what `Arrival` holds."""
        return {
            "source": self.source,
            "index": self.index,
            "pts": self.pts,
            "pts_seconds": self.pts_seconds,
            **({} if self.arrival is None else asdict(self.arrival)),
        }


def frame_rows(found: Found, sources: Sequence[str]) -> Iterator[FrameRow]:
    """Yield a row for each frame of a batch; `sources` are the videos by their places."""
    batch = found.batch
    height, width = batch.frames.shape[1:3]
    for k in range(len(batch)):
        is_picture = isinstance(batch, PictureBatch)
        yield FrameRow(
            source=_source(batch, k, sources),
            index=None if is_picture else int(batch.index[k]),
            pts=None if is_picture else int(batch.pts[k]),
            pts_seconds=None if is_picture else round(float(batch.pts_seconds[k]), 6),
            size=(height, width),
            boxes=tuple(_boxes(found, k)),
            arrival=found.arrival,
        )


def _source(batch: FrameBatch, k: int, sources: Sequence[str]) -> str:
    name = str(batch.pictures[k].path) if isinstance(batch, PictureBatch) else sources[batch.video]
    # A name may hold bytes that no text has; as a session writes them.
    return name.encode(errors="backslashreplace").decode()


def _boxes(found: Found, k: int) -> Iterator[BoxRow]:
    boxes = found.boxes
    for number, label, score, (left, top, right, bottom) in zip(
        boxes.classes[k].tolist(),
        boxes.labels[k],
        boxes.scores[k].tolist(),
        boxes.xyxy[k].tolist(),
        strict=True,
    ):
        yield BoxRow(label_id=number, label=label, score=score, xyxy=(left, top, right, bottom))
