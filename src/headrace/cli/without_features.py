"""What commands that read features say of videos that have not all of them."""

import sys
from collections.abc import Mapping, Sequence
from typing import Final

import typer

from headrace.cli.extract_end import NOT_ALL

FOLDER: Final = typer.Argument(
    metavar="DIR", help="Features: the folder of headrace extract features."
)
_SHOWN: Final = 10


def end_with_the_missing(missing: Mapping[str, Sequence[str]]) -> None:
    """Name videos on stderr by what is missing of them; end with exit code 3 where there are any.

    Args:
        missing: What is missing → the videos.
    """
    from headrace.report.numbers import counted
    from headrace.report.text import printable

    for what, videos in missing.items():
        if videos:
            named = ", ".join(videos[:_SHOWN])
            more = f" and {len(videos) - _SHOWN} more" if len(videos) > _SHOWN else ""
            line = f"headrace: {counted(len(videos), 'video')} {what}: {named}{more}"
            print(printable(line), file=sys.stderr)
    if any(missing.values()):
        raise typer.Exit(NOT_ALL)
