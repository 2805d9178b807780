"""`headrace extract aggregate` and `export`: pooling and conversion of features."""

import json as json_format
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from headrace.cli.config_flags import JsonFlag
from headrace.cli.progress import progress
from headrace.profiling.number_format import counted

if TYPE_CHECKING:
    from headrace.extraction.features.feature_folder import FeatureFolder

FOLDER: Final = typer.Argument(metavar="DIR", help="Output folder of headrace extract features.")
_MAX_VIDEOS: Final = 10
"""Max videos that a warning names."""


def _conclude(
    folder: "FeatureFolder",
    result: Any,
    line: str,
    missing: Mapping[str, Sequence[str]],
    *,
    as_json: bool,
) -> None:
    """Print the result; warn of missing features, and exit with code 3 if there are any.

    Args:
        folder: Folder of the features.
        result: Dataclass with the counts, for JSON.
        line: Text of the result.
        missing: Description of a problem → names of its videos.
        as_json: Whether to print JSON.
    """
    from headrace.profiling.session import NOT_ALL
    from headrace.report.text import printable

    print(json_format.dumps(asdict(result)) if as_json else line)
    for problem, videos in missing.items():
        if videos:
            line = f"headrace: {counted(len(videos), 'video')} {problem}: {_names(videos)}"
            print(printable(line), file=sys.stderr)
    if folder.is_ended is False:
        print(
            f"headrace: the extraction into {folder.folder} is incomplete, or a table is missing; "
            "the result covers the existing features. Run the extraction again to complete it",
            file=sys.stderr,
        )
    if any(missing.values()) or folder.is_ended is False:
        raise typer.Exit(NOT_ALL)


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_VIDEOS} more" if len(names) > _MAX_VIDEOS else ""
    return f"{', '.join(names[:_MAX_VIDEOS])}{more}"


def aggregate(
    folder: Annotated[Path, FOLDER],
    out: Annotated[Path, typer.Option("-o", "--out", help="New Parquet file.")],
    by: Annotated[
        Literal["mean", "max"], typer.Option(help="Pooling of each feature value over the video.")
    ] = "mean",
    join: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="Add the columns of this CSV file, which has one row per video and its name or "
            "path in a column path, video, file or filename. For one row per frame, see "
            "headrace.read_features.",
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Pool features to one per video, and join labels."""
    from headrace.extraction.features.aggregate import aggregate as pool
    from headrace.extraction.features.feature_folder import FeatureFolder
    from headrace.report.text import printable

    with progress(is_quiet=json) as show:
        opened = FeatureFolder(folder)
        result = pool(opened, out, by, labels=join, on_video=partial(show, "videos"))
    missing = {
        "without a feature, with an empty row": result.empty,
        "with lost samples, pooled over the others": result.partial,
        f"not in {join}": result.unjoined,
    }
    if result.unmatched:
        rows = counted(len(result.unmatched), "row")
        names = printable(_names(result.unmatched))
        print(f"headrace: {rows} of {join} left out, for no video here: {names}", file=sys.stderr)
    line = f"{counted(result.videos, 'video')} pooled by {by}: {out}"
    _conclude(opened, result, line, missing, as_json=json)


def export(
    folder: Annotated[Path, FOLDER],
    out: Annotated[Path, typer.Option("-o", "--out", help="New or empty folder.")],
    format: Annotated[
        Literal["npy", "safetensors", "webdataset"],
        typer.Option(help="npy, safetensors: one file per video; webdataset: tar files."),
    ],
    json: JsonFlag = False,
) -> None:
    """Convert features and their times to npy, safetensors or WebDataset."""
    from headrace.extraction.features.export import export as write
    from headrace.extraction.features.feature_folder import FeatureFolder

    with progress(is_quiet=json) as show:
        opened = FeatureFolder(folder)
        result = write(opened, out, format, on_video=partial(show, "videos"))
    videos, files = counted(result.videos, "video"), counted(len(result.files), "file")
    missing = {"without a feature, left out": result.empty, "with lost samples": result.partial}
    _conclude(opened, result, f"{videos} in {files} as {format}: {out}", missing, as_json=json)
