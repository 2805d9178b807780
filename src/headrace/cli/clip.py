"""`headrace clip`: one clip, its indices and times, its first and last frame."""

import json as json_format
from pathlib import Path
from typing import Annotated, Literal

import typer


def clip(
    file: Annotated[str, typer.Argument(help="Video file.")],
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
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Read one clip; print its indices and times, show its first and last frame."""
    from headrace.decode.clips import load_clip
    from headrace.video.timebase import format_rate

    found = load_clip(file, start, num_frames, stride, boundary=boundary, on_error=on_error)
    if show is not None:
        from headrace.report.pictures import write_side_by_side

        write_side_by_side(
            show,
            [
                (found.frames[k], f"#{found.index[k]}  {found.pts_seconds[k]:.3f} s")
                for k in (0, -1)
            ],
        )
    if json:
        facts = {
            "source": found.source,
            "shape": list(found.frames.shape),
            "frame_rate": float(found.frame_rate),
            "clip_frame_rate": float(found.frame_rate / stride),
            "index": found.index.tolist(),
            "pts_seconds": found.pts_seconds.tolist(),
            "is_concealed": found.is_concealed.tolist(),
            "show": None if show is None else str(show),
        }
        print(json_format.dumps(facts))
        return
    print(f"{found.source}: {' x '.join(map(str, found.frames.shape))} uint8 (T, H, W, 3)")
    rate = format_rate(found.frame_rate / stride)
    print(f"frame rate {format_rate(found.frame_rate)}/s, of the clip {rate}/s")
    print("index       " + " ".join(f"{k:8d}" for k in found.index))
    print("pts seconds " + " ".join(f"{t:8.3f}" for t in found.pts_seconds))
    if found.is_concealed.any():
        print("concealed   " + " ".join(f"{'yes' if c else '-':>8}" for c in found.is_concealed))
    if show is not None:
        print(f"first and last frame: {show}")
