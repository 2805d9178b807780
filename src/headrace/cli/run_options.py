"""The flags of `headrace run`: groups of them, each with its type, its help and its default.

A flag that is called like a field of the library's options is that field; run_values.py says what
becomes of the others.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from headrace.cli.decode_option import Decode
from headrace.cli.early import (
    check_batch_size,
    check_cores,
    check_out,
    check_span,
    check_weights,
    checking,
)
from headrace.cli.sources import RATE


@dataclass(frozen=True, kw_only=True)
class ReadFlags:
    """What is read."""

    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help="A video, folder or glob; a camera: 0; rtsp://, rtsps://, http(s)://, udp://; a "
            "pattern: test://; a list: cameras.streams. Several make batches.",
        ),
    ] = None
    input_path: Annotated[
        list[str] | None, typer.Option(metavar="SOURCE", help="The same as SOURCE.")
    ] = None
    rate: Annotated[str | None, typer.Option(metavar="RATE", help=RATE)] = None
    stride: Annotated[int, typer.Option(min=1, help="Every n-th frame; 1 means all.")] = 1
    max_steps: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many steps.", metavar="N")
    ] = None
    on_error: Annotated[
        Literal["raise", "skip", "conceal"],
        typer.Option(
            help="Damaged frames end the run, are left out, or come as FFmpeg shows them; listed."
        ),
    ] = "raise"
    decode: Decode = "cpu"


@dataclass(frozen=True, kw_only=True)
class ComputeFlags:
    """What is computed, and where."""

    model_name: Annotated[
        str, typer.Option(help="A model of torchvision: headrace models lists them.")
    ] = "mobilenet_v2"
    weights: Annotated[
        str,
        typer.Option(
            help="DEFAULT (torchvision's own), none (random), or a checkpoint file.",
            callback=checking(check_weights),
        ),
    ] = "DEFAULT"
    batch_size: Annotated[
        str,
        typer.Option(
            metavar="N|auto",
            help="Frames in a step (in real time: at most); auto measures which serves best.",
            callback=checking(check_batch_size),
        ),
    ] = "16"
    prep_level: Annotated[
        Literal["simple", "medium", "complex"],
        typer.Option(help="How much preprocessing is done; medium is the model's own."),
    ] = "medium"
    device: Annotated[
        Literal["cpu", "cuda"] | None,
        typer.Option(help="Where the model runs; cpu if left out.", show_default=False),
    ] = None
    threads: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Threads of one operation on the CPU.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ExecutionFlags:
    """How it is computed, where that is not the plain way."""

    infer_on_gpu: Annotated[
        bool, typer.Option("--infer-on-gpu", help="The same as --device cuda.")
    ] = False
    prep_on_gpu: Annotated[
        bool, typer.Option("--prep-on-gpu", help="Preprocess on the GPU, wherever the model runs.")
    ] = False
    core_bind: Annotated[
        str | None,
        typer.Option(
            metavar="0-3,6|all",
            help="Processor cores to run on, with a thread each.",
            callback=checking(check_cores),
        ),
    ] = None
    enable_compile: Annotated[
        bool, typer.Option("--enable-compile", help="Compile the model first, by torch.compile.")
    ] = False
    use_amp: Annotated[
        bool,
        typer.Option("--use-amp", help="Compute in 16 bits where the model can: less memory."),
    ] = False
    split_point: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL:LAYER",
            help="Run the model up to this layer on the CPU, from there on the device.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class FlowFlags:
    """How frames come, and what is done when they are too many."""

    pace: Annotated[
        Literal["auto", "offline", "realtime"],
        typer.Option(help="Files as fast as they can (auto, offline), or as they would be played."),
    ] = "auto"
    overload: Annotated[
        Literal["auto", "every-frame", "freshest"],
        typer.Option(
            help="Too many frames: keep all, or let newer ones replace older ones (auto)."
        ),
    ] = "auto"
    max_staleness: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN",
            help='Drop frames that are older, such as "200ms".',
            callback=checking(check_span),
        ),
    ] = None
    queue: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Frames of each source that may wait for their turn."
        ),
    ] = None
    wait_for_source: Annotated[
        bool, typer.Option("--wait-for-source", help="Wait for a source that is not there yet.")
    ] = False
    max_seconds: Annotated[
        float | None, typer.Option(help="Stop reading after so many seconds.", metavar="SECONDS")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ClipFlags:
    """What clips a video model gets."""

    clip_len: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Frames of a clip, for a video model; its own if left out."
        ),
    ] = None
    clip_stride: Annotated[
        int, typer.Option(min=1, help="Of the frames of a clip; 1 means consecutive ones.")
    ] = 1
    clip_hop: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Frames from one clip to the next; its span if left out."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """Where results go."""

    out: Annotated[
        Path, typer.Option(help="Folder of the results.", callback=checking(check_out))
    ] = Path("headrace_run")
    video: Annotated[
        bool, typer.Option("--video/--no-video", help="Write an annotated video or not.")
    ] = True
    predictions: Annotated[
        Literal["jsonl", "parquet"],
        typer.Option(help="Predictions as JSON lines, or as a Parquet table."),
    ] = "jsonl"
    top_k: Annotated[int, typer.Option(min=1, help="Classes that are named for each frame.")] = 1
    sink: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE:CLASS",
            help="A class of your own that takes the results as well; its code is run; repeatable.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ViewFlags:
    """Where it can be watched, and what is printed."""

    view: Annotated[
        Literal["none", "web", "metrics", "window"],
        typer.Option(
            help="Watch it: as a page, with metrics; metrics without a page; in a window."
        ),
    ] = "none"
    web_address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where the page is served; others need a token.")
    ] = "127.0.0.1"
    web_port: Annotated[int, typer.Option(min=0, max=65535, help="Its port; 0 for any.")] = 8686
    web_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A name it may be asked for under, as a proxy's; repeatable."
        ),
    ] = None
    web_token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Holds its token; else HEADRACE_WEB_TOKEN does, or one is made."
        ),
    ] = None
    max_silence: Annotated[
        str,
        typer.Option(
            metavar="SPAN",
            help="Without results for longer its health is bad.",
            callback=checking(check_span),
        ),
    ] = "10s"
    try_advised: Annotated[
        bool,
        typer.Option(
            "--try", help="Then run again with the change advised, and say what it brought."
        ),
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, run nothing.")] = (
        False
    )
    log_format: Annotated[
        Literal["text", "json"],
        typer.Option(help="What happens to live sources, on stderr: lines of text, or of JSON."),
    ] = "text"
    json: Annotated[
        bool, typer.Option("--json", help="Print the recorded session as JSON, nothing else.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class MarkFlags:
    """What looks on."""

    nvtx: Annotated[bool, typer.Option("--nvtx", help="Make NVTX ranges, for nsys profile.")] = (
        False
    )
    trace: Annotated[
        bool, typer.Option("--trace", help="Write a trace of the first steps, for Perfetto.")
    ] = False
    trace_steps: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Steps in the trace, after the first one; 20."),
    ] = None
    tensorboard: Annotated[
        Path | None,
        typer.Option("--tensorboard", metavar="DIR", help="Log each step there, for TensorBoard."),
    ] = None


GROUPS = (
    *(
        ReadFlags,
        ComputeFlags,
        ExecutionFlags,
        FlowFlags,
        ClipFlags,
        OutputFlags,
        ViewFlags,
        MarkFlags,
    ),
)
"""In the order of `--help`."""
