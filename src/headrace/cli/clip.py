"""`headrace clip`: one clip, its indices and times, its first and last frame."""

import json as json_format
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headrace.cli.config_flags import shown_option
from headrace.cli.sources import STREAM, source_of
from headrace.video.image_sequence import RATE_OPTION

if TYPE_CHECKING:
    from headrace.video.frames import Clip


def clip(
    file: Annotated[str, typer.Argument(help="Video file, or pictures with --framerate.")],
    start: Annotated[int, typer.Option(min=0, help="Index of the first frame.")] = 0,
    num_frames: Annotated[int, typer.Option(min=1, help="Frames in the clip.")] = 16,
    stride: Annotated[int, typer.Option(min=1, help="1 means consecutive frames.")] = 2,
    boundary: Annotated[
        Literal["error", "repeat_last", "wrap"],
        typer.Option(help="What to do where the video ends before the clip."),
    ] = "error",
    on_error: Annotated[
        Literal["raise", "conceal"],
        typer.Option(help="Damaged frames are an error, or come as FFmpeg shows them."),
    ] = "raise",
    show: Annotated[
        Path | None, typer.Option(help="Write the first and last frame side by side, as PNG.")
    ] = None,
    stream: Annotated[str | None, typer.Option(help=STREAM)] = None,
    rate: Annotated[str | None, shown_option(RATE_OPTION)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Read one clip; print its indices and times, show its first and last frame."""
    from headrace.decode.read_clip import load_clip

    found = load_clip(
        source_of(file, rate=rate, stream=stream),
        start,
        num_frames,
        stride,
        boundary=boundary,
        on_error=on_error,
    )
    if show is not None:
        from headrace.report.image_grid import write_side_by_side

        write_side_by_side(
            show,
            [
                (found.frames[k], f"#{found.index[k]}  {found.pts_seconds[k]:.3f} s")
                for k in (0, -1)
            ],
        )
    if json:
        print(json_format.dumps(_facts(found, stride, show)))
        return
    for line in _lines(found, stride):
        print(line)
    if show is not None:
        print(f"first and last frame: {show}")


def _facts(found: "Clip", stride: int, show: Path | None) -> dict[str, Any]:
    return {
        "source": found.source,
        "shape": list(found.frames.shape),
        "frame_rate": float(found.frame_rate),
        "clip_frame_rate": float(found.frame_rate / stride),
        "index": found.index.tolist(),
        "pts_seconds": found.pts_seconds.tolist(),
        "is_concealed": found.is_concealed.tolist(),
        "show": None if show is None else str(show),
    }


def _lines(found: "Clip", stride: int) -> Iterator[str]:
    from headrace.video.timebase import format_rate

    yield f"{found.source}: {' x '.join(map(str, found.frames.shape))} uint8 (T, H, W, 3)"
    of_clip = format_rate(found.frame_rate / stride)
    yield f"frame rate {format_rate(found.frame_rate)}/s, of the clip {of_clip}/s"
    yield "index       " + " ".join(f"{k:8d}" for k in found.index)
    yield "pts seconds " + " ".join(f"{t:8.3f}" for t in found.pts_seconds)
    if found.is_concealed.any():
        yield "concealed   " + " ".join(f"{'yes' if c else '-':>8}" for c in found.is_concealed)
