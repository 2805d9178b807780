"""The options of `headrace extract frames`, as they are typed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer


@dataclass(frozen=True, kw_only=True)
class FrameFlags:
    """Which frames of what, as what pictures, and how."""

    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE", help="Videos, folders of them, or lists (.txt, .csv, .jsonl)."
        ),
    ]
    out: Annotated[
        Path,
        typer.Option("-o", "--out", help="Folder: new, or begun by the same command before."),
    ]
    fps: Annotated[
        str | None,
        typer.Option(help="What is shown at each multiple of 1/FPS seconds; 0.5 or 1/3."),
    ] = None
    every: Annotated[
        int | None, typer.Option(min=1, help="Every N-th frame; 1 is all of them.")
    ] = None
    keyframes: Annotated[
        bool, typer.Option("--keyframes", help="Keyframes: nothing else is decoded.")
    ] = False
    at: Annotated[str | None, typer.Option(help="What is shown at these seconds: 1.5,3.0.")] = None
    prefix: Annotated[str, typer.Option(help="Put before the name of each picture.")] = ""
    format: Annotated[
        Literal["png", "jpg", "webp", "avif"], typer.Option(help="Of the pictures.")
    ] = "png"
    quality: Annotated[
        int | None,
        typer.Option(help="1 to 100, not for png; without it jpg 90, webp 80, avif 75."),
    ] = None
    size: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="Height and width of the pictures, such as 256x456."),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Processes; without it one for each core. The result is the same."
        ),
    ] = None
    on_error: Annotated[
        Literal["skip", "raise", "conceal"],
        typer.Option(
            help="Bad videos and frames are left out and listed, end it, or, where frames are "
            "damaged, come as FFmpeg shows them."
        ),
    ] = "skip"
    retry: Annotated[
        bool,
        typer.Option("--retry", help="Try again what ended two workers in an earlier run."),
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many, how large and how long.")
    ] = False
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
