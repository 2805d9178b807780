"""`headrace extract`: frames as image files, features of models, and tools for features."""

from typing import Any

import typer

from headrace.cli.config_flags import JSON, configured, option, parameters, with_parameters
from headrace.cli.extract_features import extract_features
from headrace.cli.extract_options import (
    CROP,
    ESTIMATE,
    SELECTION,
    crop_of,
    selection_of,
    sources_of_files,
)
from headrace.cli.extract_read import aggregate, export
from headrace.cli.extract_run import OutputNouns, run_extraction
from headrace.cli.sources import frame_size
from headrace.cli.typer_commands import CommandList
from headrace.extraction.frame_extraction import FrameExtractionOptions
from headrace.extraction.image_encoder import ImageEncoder

extract = typer.Typer(
    cls=CommandList,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Extract frames or features from many videos.",
)


_FRAMES = (
    *parameters(FrameExtractionOptions, only="sources out rate"),
    *SELECTION,
    *parameters(ImageEncoder),
    option(
        "size", str | None, None, "Height and width of the images, such as 256x456.", metavar="HxW"
    ),
    CROP,
    *parameters(FrameExtractionOptions, only="decode spill spill_budget workers on_error retry"),
    ESTIMATE,
    JSON,
)


def _extract_frames(**typed: Any) -> None:
    from headrace.extraction.frame_extraction import FrameExtraction
    from headrace.video.frame_format import FrameFormat

    options = configured(
        FrameExtractionOptions,
        typed,
        sources=sources_of_files(typed, "frames"),
        selection=selection_of(typed),
        pictures=configured(ImageEncoder, typed),
        shape=FrameFormat(size=frame_size(typed["size"]), crop=crop_of(typed)),
    )
    nouns = OutputNouns(noun="image", sample="frame", none="could not be opened")
    run_extraction(FrameExtraction, options, nouns, typed)


extract.command("frames")(
    with_parameters(
        _extract_frames,
        _FRAMES,
        "Extract frames as image files, with a table of them. Resumable: run it again.",
    )
)
extract.command("aggregate")(aggregate)
extract.command("export")(export)
extract.command("features")(extract_features)
