"""A line of `proxies.jsonl`: one video, its proxy, and what was lost on the way."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from headrace.errors import ConfigError, reason_of
from headrace.text_file import write_whole
from headrace.video.manifest import OUTPUT_HOME
from headrace.video.proxy_source import AGAIN
from headrace.video.source import Stream

LIST: Final = "proxies.jsonl"
"""Name of the list in the folder of the proxies."""
VIDEOS: Final = "videos"
"""Name of the folder in it where they lie."""


@dataclass(frozen=True, kw_only=True)
class ProxyRow:
    """One video and its proxy."""

    path: str
    """Of the original, from the root on."""
    name: str
    """What both files of the proxy are called, but for `.mp4` and `.npz`."""
    stream: Stream | None
    """Which stream of the original, as `Source` has it; None: the one FFmpeg calls best."""
    fingerprint: Mapping[str, int]
    """`size` and `mtime_ns` of the original."""
    content: str
    """Id of the original's content; it survives copying."""
    proxy: str
    """Path of the proxy in the folder."""
    bytes: int
    """Of the proxy."""
    original_bytes: int
    frames: int
    height: int
    width: int
    """Of the proxy."""
    original_height: int
    original_width: int
    """Upright."""
    gop: int
    """Frames from one keyframe of the proxy to the next."""
    codec: str
    psnr: Mapping[str, float]
    """Of brightness, decibel: `mean` and `worst` frame; 100 stands for equal pictures."""
    ssim: Mapping[str, float]
    """The same for SSIM, up to 1; empty where the proxy is smaller than its windows."""
    lost: tuple[int, ...]
    """Indices of frames that are damaged, and shown as FFmpeg shows them."""
    seconds: float
    """That it took to make."""

    @classmethod
    def parse(cls, plain: Mapping[str, Any]) -> "ProxyRow":
        """Return what `asdict` made.

        Raises:
            TypeError, ValueError, KeyError: it is something else.
        """
        row = cls(**{**plain, "lost": tuple(map(int, plain["lost"]))})
        if not all(isinstance(each, str) for each in (row.path, row.name, row.proxy, row.content)):
            raise TypeError("a path or name of it is no text")
        if not isinstance(row.fingerprint, dict):
            raise TypeError("it does not say which file the original was")
        return row


def write_rows(folder: Path, rows: Iterable[ProxyRow]) -> None:
    """Write the list of a folder, whole or not at all.

    Raises:
        ConfigError: it cannot be written.
    """
    write_whole(folder / LIST, "".join(json.dumps(asdict(row)) + "\n" for row in rows))


def read_rows(folder: Path) -> Iterator[ProxyRow]:
    """Yield the lines of a folder's list.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    path = folder / LIST
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        what = "give the folder that headrace proxy -o wrote"
        if (folder / OUTPUT_HOME).is_dir():
            what = "its proxies are not all made: give the same headrace proxy -o command again"
        raise ConfigError(f"cannot read {path}: {reason_of(error)}; {what}") from error
    for number, line in enumerate(lines, 1):
        try:
            yield ProxyRow.parse(json.loads(line))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigError(
                f"line {number} of {path} is none that headrace proxy -o writes; {AGAIN}"
            ) from error
