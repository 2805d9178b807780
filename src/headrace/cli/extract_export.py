"""`headrace extract export`: features in the formats that other programs train from."""

import json as json_format
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from headrace.cli.progress import progress
from headrace.cli.without_features import FOLDER, end_with_the_missing


def export(
    folder: Annotated[Path, FOLDER],
    out: Annotated[Path, typer.Option("-o", "--out", help="New folder, or an empty one.")],
    format: Annotated[
        Literal["npy", "safetensors", "webdataset"],
        typer.Option(help="A file for each video, or tar files of them."),
    ],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write features as npy, safetensors or WebDataset. Times come with them."""
    from headrace.extraction.features.export import export as write
    from headrace.extraction.features.folder import FeatureFolder
    from headrace.profiling.number_format import counted

    with progress(is_quiet=json) as show, FeatureFolder(folder) as opened:
        done = write(opened, out, format, on_video=lambda done, of: show("videos", done, of))
    if json:
        print(json_format.dumps(asdict(done)))
    else:
        print(
            f"{counted(done.videos, 'video')} in {counted(len(done.files), 'file')} as {format}: "
            f"{out}"
        )
    end_with_the_missing(
        opened,
        {"without a feature, left out": done.empty, "of which samples were lost": done.partial},
    )
