"""Videos and what was lost of them, as a session records them."""

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
