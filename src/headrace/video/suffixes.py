"""Which files are named like videos."""

from pathlib import Path
from typing import Final

VIDEO_SUFFIXES: Final = frozenset(
    [
        *(".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".ts", ".m2ts", ".mts", ".mpg"),
        *(".mpeg", ".flv", ".ogv", ".wmv", ".asf", ".3gp", ".mxf", ".h264", ".264", ".hevc"),
        *(".265", ".h265", ".ivf", ".y4m"),
    ]
)


def is_video_name(text: str) -> bool:
    """Return whether a path ends as those of videos do."""
    return Path(text).suffix.lower() in VIDEO_SUFFIXES
