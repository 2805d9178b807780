"""`headrace extract aggregate` and `export`: features pooled per video, or in other formats."""

import json as json_format
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from headrace.cli.progress import progress

if TYPE_CHECKING:
    from headrace.extraction.features.feature_folder import FeatureFolder

FOLDER: Final = typer.Argument(
    metavar="DIR", help="Features: the folder of headrace extract features."
)
_SHOWN: Final = 10


def _conclude(
    folder: "FeatureFolder",
    result: Any,
    line: str,
    missing: Mapping[str, Sequence[str]],
    *,
    as_json: bool,
) -> None:
    """Print what was written, and missing features to stderr; exit with code 3 if there are any.

    Args:
        folder: Folder of the features.
        result: What was written.
        line: The same as text.
        missing: Description → names of the videos it applies to.
        as_json: Whether to print JSON.
    """
    from headrace.profiling.number_format import counted
    from headrace.profiling.session import NOT_ALL
    from headrace.report.text import printable

    print(json_format.dumps(asdict(result)) if as_json else line)
    for what, videos in missing.items():
        if videos:
            named = ", ".join(videos[:_SHOWN])
            more = f" and {len(videos) - _SHOWN} more" if len(videos) > _SHOWN else ""
            line = f"headrace: {counted(len(videos), 'video')} {what}: {named}{more}"
            print(printable(line), file=sys.stderr)
    if folder.is_ended is False:
        print(
            f"headrace: the extraction into {folder.folder} has not ended, or a table is gone; "
            "this is of what is there. Run the same command again to go on with it",
            file=sys.stderr,
        )
    if any(missing.values()) or folder.is_ended is False:
        raise typer.Exit(NOT_ALL)


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
            "path; a row for each video. For a row for each frame, see headrace.read_features.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Pool features to one for each video. Labels and the like can be joined."""
    from headrace.extraction.features.aggregate import aggregate as pool
    from headrace.extraction.features.feature_folder import FeatureFolder
    from headrace.profiling.number_format import counted

    with progress(is_quiet=json) as show:
        opened = FeatureFolder(folder)
        result = pool(opened, out, by, labels=join, on_video=partial(show, "videos"))
    missing = {
        "without a feature; the row has none": result.empty,
        "pooled over what there is: samples were lost": result.partial,
        f"not in {join}": result.unjoined,
    }
    line = f"{counted(result.videos, 'video')} pooled by {by}: {out}"
    _conclude(opened, result, line, missing, as_json=json)


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
    from headrace.extraction.features.feature_folder import FeatureFolder
    from headrace.profiling.number_format import counted

    with progress(is_quiet=json) as show:
        opened = FeatureFolder(folder)
        result = write(opened, out, format, on_video=partial(show, "videos"))
    videos, files = counted(result.videos, "video"), counted(len(result.files), "file")
    missing = {
        "without a feature, left out": result.empty,
        "with a part of their samples lost": result.partial,
    }
    _conclude(opened, result, f"{videos} in {files} as {format}: {out}", missing, as_json=json)
