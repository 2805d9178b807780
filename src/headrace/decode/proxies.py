"""Proxies: small copies of videos that `headrace proxy` made, looked up by the originals."""

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
    """Path of the original, from the root on."""
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
    """PSNR of luma in decibel: `mean` and `worst` frame; 100 stands for equal frames."""
    ssim: Mapping[str, float]
    """SSIM likewise, up to 1; empty where the proxy is smaller than SSIM's windows."""
    lost: tuple[int, ...]
    """Indices of damaged frames that FFmpeg concealed."""
    seconds: float
    """Seconds that encoding took."""

    @classmethod
    def parse(cls, plain: Mapping[str, Any]) -> "ProxyRow":
        """Return the row of a dictionary from `asdict`.

        Raises:
            TypeError, ValueError, KeyError: it is no such dictionary.
        """
        row = cls(**{**plain, "lost": tuple(map(int, plain["lost"]))})
        if not all(isinstance(each, str) for each in (row.path, row.name, row.proxy, row.content)):
            raise TypeError("a path or name of it is no text")
        if not isinstance(row.fingerprint, dict):
            raise TypeError("it does not say which file the original was")
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


_NAMED = 3
"""Most videos without a proxy that a message names."""


class Proxies:
    """A folder from `headrace proxy VIDEOS -o FOLDER`; loaders take its sources.

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
            raise ConfigError(
                f"a folder of proxies is named by its path, got {type(folder).__name__}"
            )
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
        """All proxies, in the order of the originals; opens no original."""
        return [self._source(Path(row.path), row) for row in self._rows]

    def of(self, video: Source | str | os.PathLike[str]) -> ProxySource:
        """Return the proxy of a video, which keeps the video's path.

        It is found by the original's absolute path, or by the shortest unique end of the path. An
        original that exists must still match the proxy, by size and modification time, or by
        content.

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
        check_is_list(videos, "of(video) gives the proxy of one")
        given = [Source.of(video) for video in videos]
        rows = [self._row(source) for source in given]
        without = [str(source) for source, row in zip(given, rows, strict=True) if row is None]
        if without:
            more = ", ..." if len(without) > _NAMED else ""
            raise ConfigError(
                f"{len(without)} of {len(given)} videos have no proxy in {self.folder}, which has "
                f"those of {len(self)}: {', '.join(without[:_NAMED])}{more}; make "
                "them in another folder: headrace proxy VIDEOS -o OTHER, and join what both give"
            )
        found = []
        for source, row in zip(given, rows, strict=True):
            assert row is not None
            _check_unchanged(source, row)
            found.append(self._source(source.path, row))
        return found

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
        found: defaultdict[str, list[ProxyRow]] = defaultdict(list)
        for row in self._rows:
            found[PurePath(row.path).name].append(row)
        return found


def _check(row: ProxyRow, folder: Path) -> None:
    """Refuse a row with a path outside its folder, or without sizes: ConfigError."""
    sizes = (row.bytes, row.fingerprint.get("size"), row.fingerprint.get("mtime_ns"))
    if not is_inside(row.proxy) or not all(isinstance(each, int) for each in sizes):
        raise ConfigError(
            f"the list in {folder} says what cannot be of {row.name}: proxy {row.proxy!r}, "
            f"{row.bytes} bytes, original {dict(row.fingerprint)}; make the proxies again"
        )


def _fingerprint(row: ProxyRow) -> FileStat:
    return FileStat(row.fingerprint["size"], row.fingerprint["mtime_ns"])


def _check_unchanged(source: Source, row: ProxyRow) -> None:
    """Refuse a proxy whose original exists and has changed: OpenError."""
    if not source.path.exists():
        return
    original = Source(source.path, source.stream)
    if original.fingerprint() == _fingerprint(row) or original.content_id() == row.content:
        return
    raise OpenError(
        f"{source} is not the video that its proxy {row.proxy} was made of, {row.path}: it has "
        "changed since, or is another of the same name; make its proxy in another folder: headrace "
        f"proxy {source.path} -o OTHER",
        source=str(source),
    )


def _common_parts(one: PurePath, other: PurePath) -> int:
    """Return how many parts two paths share, counted from their ends."""
    pairs = zip(reversed(one.parts), reversed(other.parts), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
