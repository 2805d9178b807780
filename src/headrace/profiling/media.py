"""Videos and what was lost of them, as a session records them."""

from collections.abc import Iterable
from fractions import Fraction

from headrace.profiling.inputs import GopLengths, LostFrame, SourceSummary
from headrace.video.loss import Loss
from headrace.video.stream_index import StreamIndex


def lost_frame(loss: Loss, number: int) -> LostFrame:
    """Return a frame of input `number` that was left out, or shown in spite of damage."""
    return LostFrame(
        input=number,
        index=loss.index,
        pts_seconds=loss.pts_seconds,
        cause=loss.cause,
        is_concealed=loss.is_concealed,
    )


def summarize(index: StreamIndex) -> SourceSummary:
    """Return what a report says of a video."""
    lengths, info = index.gop_lengths, index.info
    return SourceSummary(
        path=str(index.source),
        codec=info.codec,
        height=info.height,
        width=info.width,
        frame_rate=index.frame_rate,
        frames=len(index),
        duration_seconds=index.duration_seconds,
        gop=GopLengths(
            minimum=int(lengths.min()),
            mean=float(lengths.mean()),
            maximum=int(lengths.max()),
        ),
        has_b_frames=info.reorders,
        is_vfr=index.is_vfr,
        rotation=info.orientation.rotation_degrees,
        counted_by=index.counted_by,
    )


def summarize_all(
    indexes: Iterable[StreamIndex], left_out: Iterable[str]
) -> tuple[tuple[SourceSummary, ...], dict[str, int]]:
    """Return what a report says of the videos asked for: those that were opened, then the others.

    With it comes path of a video → its place there; a record may spell a path in another way.

    Args:
        indexes: Of those that were opened.
        left_out: Paths of videos that gave nothing, opened or not.
    """
    places: dict[str, int] = {}
    opened: list[SourceSummary] = []
    for index in indexes:
        places.setdefault(str(index.source), len(opened))
        opened.append(summarize(index))
    others = [path for path in dict.fromkeys(left_out) if path not in places]
    places |= {path: place for place, path in enumerate(others, len(opened))}
    return (*opened, *map(_unopened, others)), places


def _unopened(path: str) -> SourceSummary:
    return SourceSummary(
        path=path,
        codec="",
        height=0,
        width=0,
        frame_rate=Fraction(0),
        frames=0,
        duration_seconds=0.0,
        gop=None,
        has_b_frames=False,
        is_vfr=False,
        rotation=0,
        counted_by="packets",
    )
