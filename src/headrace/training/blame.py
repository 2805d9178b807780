"""Which file is to blame for what is bad: a video, or the proxy that it is read from."""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.decode.proxy_index import ProxyIndex
from headrace.errors import OpenError
from headrace.video.proxy_source import ProxySource
from headrace.video.source import Fingerprint, Source
from headrace.video.stream_index import StreamIndex


@dataclass(frozen=True, kw_only=True)
class Blamed:
    """A file, and the frames that are bad because of it."""

    source: Source
    fingerprint: Fingerprint
    frames: list[int] | None
    """Indices; None: all of the video."""


def blamed(index: StreamIndex, frames: Sequence[int] | None) -> list[Blamed]:
    """Return the files to blame for bad frames of a video; None: for all of it.

    What was damaged in the original when its proxy was made is bad in the original; all else that
    is wrong with a proxy is no fault of the original, which can be read as ever. A file that is
    gone is not among them.
    """
    if not isinstance(index, ProxyIndex):
        everything = None if frames is None else [*frames]
        return [Blamed(source=index.source, fingerprint=index.fingerprint, frames=everything)]
    found: list[Blamed] = []
    lost = [each for each in frames or () if each in index.lost]
    if lost:
        found.append(Blamed(source=index.source, fingerprint=index.fingerprint, frames=lost))
    others = None if frames is None else [each for each in frames if each not in index.lost]
    proxy = file_read(index.source)
    fingerprint = None if others == [] else version_of(index, proxy)
    if fingerprint is not None:
        found.append(Blamed(source=proxy, fingerprint=fingerprint, frames=others))
    return found


def files_behind(index: StreamIndex) -> list[Source]:
    """Return the files that may be to blame for bad frames of a video."""
    read = file_read(index.source)
    return [index.source] if read is index.source else [index.source, read]


def version_of(index: StreamIndex, source: Source) -> Fingerprint | None:
    """Return the version of one of `files_behind` that is read now; None: it is gone."""
    if source is index.source:
        return index.fingerprint
    try:
        return source.fingerprint()
    except OpenError:
        return None


def file_read(source: Source) -> Source:
    """Return the file that is read for a video: itself, or its proxy."""
    return Source(source.proxy) if isinstance(source, ProxySource) else source
