"""What commands that read features say of videos that have not all of them."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import typer

from headrace.cli.extract_end import NOT_ALL

if TYPE_CHECKING:
    from headrace.extraction.features.folder import FeatureFolder

FOLDER: Final = typer.Argument(
    metavar="DIR", help="Features: the folder of headrace extract features."
)
_SHOWN: Final = 10


def end_with_the_missing(folder: "FeatureFolder", missing: Mapping[str, Sequence[str]]) -> None:
    """Say on stderr what is missing, and end with exit code 3 where something is.

    Args:
        folder: Of features.
        missing: What is missing of videos → these.
    """
    from headrace.profiling.number_format import counted
    from headrace.report.text import printable

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
