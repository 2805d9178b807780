"""The options of commands that extract, as they are typed; those of proxies are in `proxy.py`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from headrace.cli.config_flags import shown_option
from headrace.decode.decoder_config import DECODE_OPTION
from headrace.video.image_sequence import RATE_OPTION

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE", help="Videos, folders of them, or lists (.txt, .csv, .jsonl)."
    ),
]
Out = Annotated[
    Path, typer.Option("-o", "--out", help="Folder: new, or begun by the same command before.")
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Processes; without it one for each core. The result is the same."),
]
Retry = Annotated[
    bool, typer.Option("--retry", help="Try again what ended two workers in an earlier run.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say how many, how large and how long.")]
Decode = Annotated[str, shown_option(DECODE_OPTION)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, kw_only=True)
class SelectionFlags:
    """Which frames of what, and where to."""

    sources: Sources
    out: Out
    rate: Annotated[str | None, shown_option(RATE_OPTION)] = None
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


@dataclass(frozen=True, kw_only=True)
class PictureFlags:
    """What pictures they are made into."""

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


@dataclass(frozen=True, kw_only=True)
class SampleFlags:
    """Clips instead of frames, for video models."""

    clip_len: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="A feature is of N frames, for a video model."),
    ] = None
    stride: Annotated[
        int, typer.Option(min=1, help="Of the frames of a clip; 1 means consecutive ones.")
    ] = 1
    hop: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Frames from one clip to the next; its span if left out."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ModelFlags:
    """Which model, and how it computes."""

    model_name: Annotated[
        str | None, typer.Option(help="A model of torchvision: headrace models lists them.")
    ] = None
    layer: Annotated[
        str | None,
        typer.Option(help="Whose output is taken; if left out, what its classifier is given."),
    ] = None
    weights: Annotated[
        str, typer.Option(help="DEFAULT (torchvision's own), none (random), or a checkpoint file.")
    ] = "DEFAULT"
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION", help="A model of your own: what this function returns."
        ),
    ] = None
    prep_level: Annotated[
        Literal["simple", "medium", "complex"],
        typer.Option(help="How much preprocessing is done; medium is the model's own."),
    ] = "medium"
    device: Annotated[
        str, typer.Option(metavar="cpu|cuda|cuda:N", help="cuda: every GPU, a process each.")
    ] = "cpu"
    amp: Annotated[
        bool, typer.Option("--amp", help="Compute in 16 bits where the model can: less memory.")
    ] = False
    dtype: Annotated[
        Literal["float32", "float16"], typer.Option(help="Of the features as they are kept.")
    ] = "float32"
    allow_nan: Annotated[
        bool,
        typer.Option(
            "--allow-nan", help="Keep features with NaN or Inf, in place of listing them."
        ),
    ] = False
    batch_size: Annotated[
        str,
        typer.Option(
            metavar="N|auto", help="Samples that a model takes at a time; auto measures it."
        ),
    ] = "16"
    cache: Annotated[
        str,
        typer.Option(
            envvar="HEADRACE_CACHE",
            metavar="sqlite|PATH|redis://HOST|none",
            help="Where results are kept for other runs; a password is safest in the environment.",
        ),
    ] = "sqlite"


@dataclass(frozen=True, kw_only=True)
class DecodeFlags:
    """What decodes, and what of each frame is taken."""

    decode: Decode = "cpu"
    crop: Annotated[
        str | None,
        typer.Option(
            metavar="HxW+TOP+LEFT",
            help="Cut this out of each frame first, in pixels, such as 256x456+10+20.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ClusterFlags:
    """Where it is done."""

    ray: Annotated[
        str | None,
        typer.Option(
            metavar="auto|HOST:PORT",
            help="Have the machines of a Ray cluster do it, which all see the videos and -o.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class WorkerFlags:
    """How it is done."""

    workers: Workers = None
    on_error: Annotated[
        Literal["skip", "raise", "conceal"],
        typer.Option(
            help="Bad videos and frames are left out and listed, end it, or, where frames are "
            "damaged, come as FFmpeg shows them."
        ),
    ] = "skip"
    retry: Retry = False
    dry_run: DryRun = False
    json: Json = False
