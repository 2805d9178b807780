"""`headrace extract aggregate`: one feature for each video, with labels."""

import json as json_format
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from headrace.cli.progress import progress
from headrace.cli.without_features import FOLDER, end_with_the_missing


def aggregate(
    folder: Annotated[Path, FOLDER],
    out: Annotated[Path, typer.Option("-o", "--out", help="New Parquet file.")],
    by: Annotated[
        Literal["mean", "max"], typer.Option(help="Of each number, over the video.")
    ] = "mean",
    join: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="Adds its columns, by a column path, video, file or filename that holds name or "
            "path.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Pool features to one for each video. Labels and the like can be joined."""
    from headrace.extraction.features.aggregate import aggregate as pool
    from headrace.extraction.features.folder import FeatureFolder
    from headrace.profiling.number_format import counted

    with progress(is_quiet=json) as show, FeatureFolder(folder) as opened:
        done = pool(
            opened, out, by, labels=join, on_video=lambda done, of: show("videos", done, of)
        )
    if json:
        print(json_format.dumps(asdict(done)))
    else:
        print(f"{counted(done.videos, 'video')} pooled by {by}: {out}")
    end_with_the_missing(
        opened,
        {
            "without a feature; the row has none": done.empty,
            "pooled over what there is: samples were lost": done.partial,
            f"not in {join}": done.unjoined,
        },
    )
