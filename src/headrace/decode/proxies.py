"""Proxies: small copies of videos by `headrace proxy`, looked up by their originals."""

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Any, Final

from headrace.atomic_file import write_whole
from headrace.cached_property import cached_property
from headrace.errors import ConfigError, OpenError, reason_of
from headrace.video.find_videos import OUTPUT_HOME
from headrace.video.source import (
    AGAIN,
    FileStat,
    ProxySource,
    Source,
    Stream,
    check_is_list,
    is_inside,
    refuse_address,
)

LIST: Final = "proxies.jsonl"
"""Name of the list in a folder of proxies."""
VIDEOS: Final = "videos"
"""Name of the folder in it with the proxy videos."""


@dataclass(frozen=True, kw_only=True)
class ProxyRow:
    """One video and its proxy."""

    path: str
    """Absolute path of the original."""
    name: str
    """File name of the proxy, without `.mp4` and `.npz`."""
    stream: Stream | None
    """Stream of the original, as in `Source`; None: the one FFmpeg prefers."""
    fingerprint: Mapping[str, int]
    """`size` and `mtime_ns` of the original."""
    content: str
    """Content id of the original; it survives copying."""
    proxy: str
    """Path of the proxy in the folder."""
    bytes: int
    """Bytes of the proxy."""
    original_bytes: int
    frames: int
    height: int
    width: int
    """Width of the proxy."""
    original_height: int
    original_width: int
    """Width of the upright original."""
    gop: int
    """Frames from one keyframe of the proxy to the next."""
    codec: str
    psnr: Mapping[str, float]
    """PSNR of luma in decibels: `mean` and `worst` frame; 100 for equal frames."""
    ssim: Mapping[str, float]
    """SSIM of luma, `mean` and `worst`, up to 1; empty if the proxy is smaller than SSIM's
    windows."""
    lost: tuple[int, ...]
    """Indices of damaged frames that FFmpeg concealed."""
    seconds: float
    """Seconds that encoding took."""

    @classmethod
    def parse(cls, plain: Mapping[str, Any]) -> "ProxyRow":
        """Return the row of a dictionary from `asdict`.

        Raises:
            TypeError, ValueError, KeyError: the dictionary is not a row.
        """
        row = cls(**{**plain, "lost": tuple(map(int, plain["lost"]))})
        if not all(isinstance(text, str) for text in (row.path, row.name, row.proxy, row.content)):
            raise TypeError("path, name, proxy and content must be strings")
        if not isinstance(row.fingerprint, dict):
            raise TypeError("fingerprint must be an object")
        return row


def write_rows(folder: Path, rows: Iterable[ProxyRow]) -> None:
    """Write the list of a folder atomically.

    Raises:
        ConfigError: it cannot be written.
    """
    write_whole(folder / LIST, "".join(json.dumps(asdict(row)) + "\n" for row in rows))


def read_rows(folder: Path) -> Iterator[ProxyRow]:
    """Yield the rows of a folder's list.

    Raises:
        ConfigError: the list is missing or cannot be read.
    """
    path = folder / LIST
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        fix = "give the folder that headrace proxy -o wrote"
        if (folder / OUTPUT_HOME).is_dir():
            fix = "some proxies are missing: run the same headrace proxy -o command again"
        raise ConfigError(f"cannot read {path}: {reason_of(error)}; {fix}") from error
    for number, line in enumerate(lines, 1):
        try:
            yield ProxyRow.parse(json.loads(line))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ConfigError(
                f"line {number} of {path} was not written by headrace proxy -o; {AGAIN}"
            ) from error


_MAX_NAMED = 3
"""Maximum number of videos without a proxy that a message names."""


class Proxies:
    """A folder from `headrace proxy VIDEOS -o FOLDER`; loaders accept its sources.

        proxies = headrace.Proxies("proxies")
        FrameLoader(proxies.all(videos), size=(256, 256))

    Each source keeps the path of its original: frames, times, labels, samples and states are the
    original's, and only pixels come from the proxy. The originals need not be on the same machine.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Read the list of a folder; opens no proxy.

        Raises:
            ConfigError: the folder has no list.
        """
        if not isinstance(folder, str | os.PathLike):
            raise ConfigError(f"the folder of proxies must be a path, got {type(folder).__name__}")
        refuse_address(folder)
        self.folder = Path(folder)
        """The folder."""
        self._rows = tuple(read_rows(self.folder))
        for row in self._rows:
            _check(row, self.folder)

    def __len__(self) -> int:
        """Number of proxies."""
        return len(self._rows)

    def __iter__(self) -> Iterator[ProxySource]:
        """Yield `videos`, so that loaders accept this object."""
        return iter(self.videos)

    def __repr__(self) -> str:
        return f"Proxies({str(self.folder)!r}: {len(self)} videos)"

    @property
    def videos(self) -> list[ProxySource]:
        """All proxies, in the order of the list; opens no original."""
        return [self._source(Path(row.path), row) for row in self._rows]

    def of(self, video: Source | str | os.PathLike[str]) -> ProxySource:
        """Return the proxy of a video, with the video's path.

        The video is looked up by its absolute path, or by the shortest unique end of the path. If
        it exists, it must still be the original, by size and modification time or by content.

        Raises:
            ConfigError: it has no proxy here.
            OpenError: the original has changed since.
        """
        return self.all([video])[0]

    def all(self, videos: Iterable[Source | str | os.PathLike[str]]) -> list[ProxySource]:
        """Return the proxies of videos, in their order; checks each original that exists.

        Raises:
            ConfigError: some have no proxy here; the message has their number and the first names.
            OpenError: an original has changed since.
        """
        check_is_list(videos, "for one video use of(video)")
        sources = [Source.of(video) for video in videos]
        rows = [(source, row) for source in sources if (row := self._row(source)) is not None]
        if len(rows) < len(sources):
            known = {source for source, _ in rows}
            missing = [str(source) for source in sources if source not in known]
            more = ", ..." if len(missing) > _MAX_NAMED else ""
            raise ConfigError(
                f"{len(missing)} of {len(sources)} videos have no proxy in {self.folder}, which "
                f"has {len(self)} proxies: {', '.join(missing[:_MAX_NAMED])}{more}; make the "
                "missing ones in another folder: headrace proxy VIDEOS -o OTHER"
            )
        for source, row in rows:
            _check_unchanged(source, row)
        return [self._source(source.path, row) for source, row in rows]

    def _source(self, path: Path, row: ProxyRow) -> ProxySource:
        proxy = self.folder / row.proxy
        return ProxySource(
            path,
            row.stream,
            proxy=proxy,
            entry=proxy.with_suffix(".npz"),
            proxy_bytes=row.bytes,
            known=_fingerprint(row),
        )

    def _row(self, source: Source) -> ProxyRow | None:
        """Return the row of a video, if it is unambiguous."""
        path = source.path.absolute()
        rows = self._by_name.get(path.name, []) if type(source) in (Source, ProxySource) else []
        rows = [row for row in rows if row.stream == source.stream]
        exact = [row for row in rows if row.path == str(path)]
        if exact or not rows:
            return exact[0] if exact else None
        common = [_common_parts(path, PurePath(row.path)) for row in rows]
        best = max(common)
        return rows[common.index(best)] if common.count(best) == 1 else None

    @cached_property
    def _by_name(self) -> dict[str, list[ProxyRow]]:
        rows: defaultdict[str, list[ProxyRow]] = defaultdict(list)
        for row in self._rows:
            rows[PurePath(row.path).name].append(row)
        return rows


def _check(row: ProxyRow, folder: Path) -> None:
    """Raise ConfigError for a row with a path outside its folder, or without sizes."""
    sizes = (row.bytes, row.fingerprint.get("size"), row.fingerprint.get("mtime_ns"))
    if not is_inside(row.proxy) or not all(isinstance(size, int) for size in sizes):
        raise ConfigError(
            f"the list in {folder} has an invalid row for {row.name}: proxy {row.proxy!r}, "
            f"{row.bytes} bytes, original {dict(row.fingerprint)}; make the proxies again"
        )


def _fingerprint(row: ProxyRow) -> FileStat:
    return FileStat(row.fingerprint["size"], row.fingerprint["mtime_ns"])


def _check_unchanged(source: Source, row: ProxyRow) -> None:
    """Raise OpenError if the original exists and has changed."""
    if not source.path.exists():
        return
    original = Source(source.path, source.stream)
    if original.fingerprint() == _fingerprint(row) or original.content_id() == row.content:
        return
    raise OpenError(
        f"the proxy {row.proxy} of {source} was made from another version of the video, or from "
        f"another video of that name ({row.path}); make a new proxy in another folder: headrace "
        f"proxy {source.path} -o OTHER",
        source=str(source),
    )


def _common_parts(path: PurePath, other: PurePath) -> int:
    """Return the number of parts that two paths share, counted from their ends."""
    pairs = zip(reversed(path.parts), reversed(other.parts), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
