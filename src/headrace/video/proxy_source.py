"""A video that is read from its proxy: a small copy, frame for frame, made by `headrace proxy`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from headrace.video.source import Fingerprint, Source

AGAIN: Final = "copy it again, or delete it and give the same headrace proxy command again"
"""What is to be done about a file of a proxy that is not as it was made, in words."""


@dataclass(frozen=True)
class ProxySource(Source):
    """A video by its own path and name, whose pictures come from a proxy.

    What it is called, its frames, their times and its GOPs are the original's, so that labels,
    samples and states are the same. The original need not be there: `Proxies.of` has checked it.
    """

    proxy: Path = field(kw_only=True)
    """The MP4 that is read."""
    entry: Path = field(kw_only=True)
    """What is known of it: see `decode.packet_table`."""
    proxy_bytes: int = field(kw_only=True)
    """Size of the MP4 when it was made."""
    known: Fingerprint = field(kw_only=True)
    """Of the original when the proxy was made."""

    @property
    def key(self) -> bytes:
        """What its index would be known by."""
        return super().key + f"@{self.proxy.absolute()}".encode(errors="surrogateescape")

    @property
    def stream_in_file(self) -> int | None:
        """Number of the stream in the proxy: it has one."""
        return None

    def open_bytes(self) -> BinaryIO:
        """Return what reads the proxy from its start; the caller closes it. Raises OSError."""
        return self.proxy.open("rb")

    def for_ffmpeg(self) -> str:
        """Return the proxy, as a name that is never taken for an address."""
        return f"file:{self.proxy.absolute()}"

    def fingerprint(self) -> Fingerprint:
        """Return that of the original, as it was when the proxy was made; looks at no file."""
        return self.known
