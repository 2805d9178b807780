"""`headrace clip`: one clip with its frame indices and times."""

import json as json_format
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headrace.cli.config_flags import JsonFlag, RateFlag, StreamFlag
from headrace.cli.sources import source_of

if TYPE_CHECKING:
    from headrace.video.frames import Clip


def clip(
    file: Annotated[
        str, typer.Argument(help="Video file; with --framerate, image folder or pattern.")
    ],
    start: Annotated[int, typer.Option(min=0, help="Index of the first frame.")] = 0,
    num_frames: Annotated[int, typer.Option(min=1, help="Number of frames.")] = 16,
    stride: Annotated[
        int, typer.Option(min=1, help="Stride of the frames; 1 means consecutive.")
    ] = 2,
    boundary: Annotated[
        Literal["error", "repeat_last", "wrap"],
        typer.Option(help="Handling of a clip that exceeds the end of the video."),
    ] = "error",
    on_error: Annotated[
        Literal["raise", "conceal"],
        typer.Option(help="At damaged frames: fail, or keep FFmpeg's concealment."),
    ] = "raise",
    show: Annotated[
        Path | None,
        typer.Option(help="Write the first and last frame side by side to this PNG file."),
    ] = None,
    stream: StreamFlag = None,
    rate: RateFlag = None,
    json: JsonFlag = False,
) -> None:
    """Read one clip; print its indices and times; write its first and last frame."""
    from headrace.decode.read_clip import load_clip

    loaded = load_clip(
        source_of(file, rate=rate, stream=stream),
        start,
        num_frames,
        stride,
        boundary=boundary,
        on_error=on_error,
    )
    if show is not None:
        from headrace.sinks.painting import write_side_by_side

        write_side_by_side(
            show,
            [
                (loaded.frames[k], f"#{loaded.index[k]}  {loaded.pts_seconds[k]:.3f} s")
                for k in (0, -1)
            ],
        )
    if json:
        print(json_format.dumps(_facts(loaded, stride, show)))
        return
    for line in _lines(loaded, stride):
        print(line)
    if show is not None:
        print(f"first and last frame: {show}")


def _facts(clip: "Clip", stride: int, show: Path | None) -> dict[str, Any]:
    return {
        "source": clip.source,
        "shape": list(clip.frames.shape),
        "frame_rate": float(clip.frame_rate),
        "clip_frame_rate": float(clip.frame_rate / stride),
        "index": clip.index.tolist(),
        "pts_seconds": clip.pts_seconds.tolist(),
        "is_concealed": clip.is_concealed.tolist(),
        "show": None if show is None else str(show),
    }


def _lines(clip: "Clip", stride: int) -> Iterator[str]:
    from headrace.video.timebase import format_rate

    yield f"{clip.source}: {' x '.join(map(str, clip.frames.shape))} uint8 (T, H, W, 3)"
    clip_rate = format_rate(clip.frame_rate / stride)
    yield f"frame rate {format_rate(clip.frame_rate)}/s, of the clip {clip_rate}/s"
    yield "index       " + " ".join(f"{index:8d}" for index in clip.index)
    yield "pts seconds " + " ".join(f"{seconds:8.3f}" for seconds in clip.pts_seconds)
    if clip.is_concealed.any():
        yield "concealed   " + " ".join(f"{'yes' if c else '-':>8}" for c in clip.is_concealed)
