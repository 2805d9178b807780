"""`headrace extract`: what is taken out of many videos and kept: frames as pictures, features."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headrace.cli.config_flags import flags, with_parameters
from headrace.cli.extract_features import extract_features
from headrace.cli.extract_options import (
    ClusterFlags,
    DecodeFlags,
    ModelFlags,
    PictureFlags,
    SampleFlags,
    SelectionFlags,
    WorkerFlags,
)
from headrace.cli.extract_read import aggregate, export
from headrace.cli.extract_run import run_extraction
from headrace.cli.extract_summary import PICTURES
from headrace.cli.sources import (
    frame_crop,
    frame_size,
    paths_of,
    refuse_streams,
    selection_of_flags,
)

if TYPE_CHECKING:
    from headrace.extraction.frame_extraction import FrameEstimate

extract = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Take frames or features out of many videos, and keep them.",
)


@extract.callback()
def _group() -> None:
    """Take frames or features out of many videos, and keep them."""


def _frames(**typed: Any) -> None:
    from headrace.extraction.frame_extraction import FrameExtraction, FrameExtractionOptions
    from headrace.extraction.image_encoder import ImageEncoder
    from headrace.video.frame_format import FrameFormat

    refuse_streams(typed["sources"], "frames")
    options = FrameExtractionOptions(
        sources=tuple(map(str, paths_of(typed["sources"], typed["rate"]))),
        rate=typed["rate"],
        selection=selection_of_flags(
            typed["fps"], typed["every"], typed["at"], is_keyframes=typed["keyframes"]
        ),
        out=typed["out"],
        pictures=ImageEncoder(
            format=typed["format"],
            quality=typed["quality"],
            prefix=typed["prefix"],
        ),
        shape=FrameFormat(size=frame_size(typed["size"]), crop=frame_crop(typed["crop"])),
        decode=typed["decode"],
        workers=typed["workers"],
        on_error=typed["on_error"],
        retry=typed["retry"],
    )
    run_extraction(FrameExtraction, options, PICTURES, typed, forecast_words=_forecast_words)


extract.command("frames")(
    with_parameters(
        _frames,
        flags(SelectionFlags, PictureFlags, DecodeFlags, WorkerFlags),
        "Extract frames of videos as pictures, with a table of them. Resumable: run it again.",
    )
)
extract.command("aggregate")(aggregate)
extract.command("export")(export)


extract.command("features")(
    with_parameters(
        extract_features,
        flags(SelectionFlags, SampleFlags, ModelFlags, DecodeFlags, ClusterFlags, WorkerFlags),
        "Keep what a model gives for frames or clips of videos, as tables. Resumable.",
    )
)


def _forecast_words(found: "FrameEstimate", out: Path) -> str:
    from headrace.profiling.number_format import counted, megabytes, seconds

    what = f"{counted(found.frames, 'picture')} of {counted(found.videos, 'video')}"
    if found.num_bytes is None or found.seconds is None:
        why = "no sample could be decoded, so size and time are unknown"
        return f"Dry run: {what} would go to {out}; {why}"
    least, most = found.least_bytes or 0, found.most_bytes or 0
    return (
        f"Dry run: {what} would go to {out}\n"
        f"Size: about {megabytes(found.num_bytes)}, estimated from "
        f"{counted(found.samples, 'sample')} of {least / 1e3:.0f} to {most / 1e3:.0f} kB\n"
        f"Time: about {seconds(found.seconds)} on {counted(found.workers, 'worker')}, "
        "by what the samples took"
    )
