"""Addresses of sources: files, cameras, network streams, test patterns.

parse_addresses(["a.mp4", "0", "rtsp://user:password@camera/live", "test://?rate=30"])

The fragment of an address requests the verification of the host's certificate.
`rtsps://camera/live#verify` trusts the certificates of this system. `...#ca=camera.pem` trusts the
certificates in the file, such as the camera's own. Without a fragment no certificate is verified,
because cameras have self-signed ones. The fragment is not sent to the host.
"""

import glob
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from headrace.errors import ConfigError
from headrace.live.connect_errors import ConnectProblem
from headrace.redaction import HOW_TO_WRITE, is_ambiguous, masked
from headrace.video.find_videos import find_videos
from headrace.video.image_sequence import Rate, source_at
from headrace.video.source import Source

NETWORK_SCHEMES: Final = ("rtsp", "rtsps", "http", "https", "udp")
_POSSIBLE: Final = (
    "a path, a folder, a glob, a camera (0, /dev/video0), rtsp://, rtsps://, http://, https://, "
    "udp://, test://, or a list of them in a file named *.streams"
)
_MAX_LIST_BYTES: Final = 1 << 20
"""Max bytes of a *.streams file."""
_MIN_SIDE, _MAX_SIDE = 32, 8192
"""Bounds of the height and width of a test pattern, in pixels."""
_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
"""Files of trusted certificates on common systems; FFmpeg reads files only, not folders."""
_DEFAULT_PORTS: Final = {"rtsps": 322, "https": 443}
"""Scheme with TLS → its port."""


@dataclass(frozen=True, kw_only=True)
class TlsTrust:
    """Verification of the host's certificate, before any data is sent."""

    ca_file: Path | None = None
    """File of trusted certificates; None: the certificates of this system."""

    def options(self) -> Mapping[str, str]:
        """Return FFmpeg's options of the TLS connection."""
        paths = ssl.get_default_verify_paths()
        candidates = [str(self.ca_file)] if self.ca_file else [paths.cafile or "", *_BUNDLES]
        files = [path for path in candidates if path and Path(path).is_file()]
        return {"tls_verify": "1", **({"ca_file": files[0]} if files else {})}

    def problem(self, url: str, seconds: float) -> ConnectProblem | None:
        """Return the problem of the host's certificate; None: another problem.

        FFmpeg reports a failed connection without the reason, so this function connects again.
        """
        parts = urlsplit(url)
        context = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
        address = parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme.lower()]
        try:
            with (
                socket.create_connection(address, timeout=seconds) as plain,
                context.wrap_socket(plain, server_hostname=parts.hostname),
            ):
                return None
        except ssl.SSLCertVerificationError as error:
            return ConnectProblem(
                f"its certificate is not trusted ({error.verify_message.rstrip('.')})",
                "give #ca=FILE with the certificate of its issuer, or the host name in the "
                "certificate; without #verify and #ca= no certificate is verified",
                is_lasting=True,
            )
        except OSError:
            return None


@dataclass(frozen=True, kw_only=True)
class FileAddress:
    """A video file or an image sequence; it can be read at full speed.

    Raises:
        ConfigError: the rate is not a number above 0.
    """

    path: Path
    rate: Rate | None = None
    """Frames per second of an image sequence (a folder or a pattern); None: a video."""

    def __post_init__(self) -> None:
        source_at(self.path, rate=self.rate)  # raises for an invalid rate

    @property
    def source(self) -> Source:
        """Source of the frames."""
        return source_at(self.path, rate=self.rate)

    @property
    def name(self) -> str:
        """Name for messages."""
        return str(self.path)


@dataclass(frozen=True, kw_only=True)
class CameraAddress:
    """A Video4Linux camera of this machine."""

    device: Path
    trust: ClassVar = None
    hint: ClassVar = ""

    @property
    def url(self) -> str:
        """Path for FFmpeg."""
        return str(self.device)

    @property
    def name(self) -> str:
        """Name for messages."""
        return self.url


@dataclass(frozen=True, kw_only=True)
class NetworkAddress:
    """A network stream."""

    url: str = field(repr=False)
    """URL with credentials, only for FFmpeg; messages use `name`. FFmpeg needs the scheme in lower
    case."""
    trust: TlsTrust | None = None
    """Verification of the host's certificate; None: no verification."""

    @property
    def scheme(self) -> str:
        """One of `NETWORK_SCHEMES`."""
        return self.url.partition(":")[0]

    @property
    def name(self) -> str:
        """Name for messages, without user name, password and token."""
        return masked(self.url)

    @property
    def hint(self) -> str:
        """Advice for an ambiguous address; empty for others."""
        return f"; {HOW_TO_WRITE}" if is_ambiguous(self.url) else ""

    def __repr__(self) -> str:
        return f"NetworkAddress({self.name})"


@dataclass(frozen=True, kw_only=True)
class PatternAddress:
    """A moving test pattern in real time, with the frame number in the pixels."""

    size: tuple[int, int] = (720, 1280)
    """(height, width) in pixels."""
    rate: Fraction = Fraction(30)
    """Frames per second."""
    seconds: Fraction | None = None
    """Duration; None: endless."""
    seed: int = 0
    """Seed of the background."""

    @property
    def name(self) -> str:
        """Name for messages."""
        height, width = self.size
        duration = "" if self.seconds is None else f"&seconds={float(self.seconds):g}"
        rate = f"rate={float(self.rate):g}"
        return f"test://?size={height}x{width}&{rate}{duration}&seed={self.seed}"


Address = FileAddress | CameraAddress | NetworkAddress | PatternAddress


def parse_addresses(
    texts: Iterable[str | os.PathLike[str]], rate: Rate | None = None
) -> list[Address]:
    """Return the addresses of texts, in order. Reads lists and folders; opens no source.

    A folder or glob stands for its videos, sorted. A file `*.streams` stands for the sources in its
    lines; `#` starts a comment, and paths are relative to the list. With `rate`, in frames per
    second, each text is an image sequence: a folder of images or a pattern.

    Raises:
        ConfigError: no source is given; a text is not an address; the rate is invalid, or given for
            a live source.
    """
    addresses: list[Address] = []
    for text in (os.fspath(text).strip() for text in texts):
        addresses += _parse_source(text) if rate is None else [_parse_images(text, rate)]
    if not addresses:
        raise ConfigError(f"no source is given; give one or more: {_POSSIBLE}")
    return addresses


def is_live_address(text: str) -> bool:
    """Return whether a text is the address of a live source; a path is not."""
    return "://" in text or text.isdecimal() or text.startswith("/dev/")


def _parse_source(text: str, folder: Path | None = None) -> Iterator[Address]:
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", text)
    if scheme:
        yield _parse_url(text, scheme[1].lower())
    elif re.fullmatch(r"\d+", text, re.ASCII):
        yield CameraAddress(device=Path(f"/dev/video{int(text)}"))
    elif text.startswith("/dev/"):
        yield CameraAddress(device=Path(text))
    elif not text:
        raise ConfigError(f"a source is empty; give {_POSSIBLE}")
    else:
        yield from _parse_path(Path(text) if folder is None else folder / text, folder)


def _parse_images(text: str, rate: Rate) -> FileAddress:
    if is_live_address(text):
        raise ConfigError(
            "--framerate is for image sequences, a folder or a pattern such as frames/%05d.jpg, "
            f"got the live source {masked(text)}; leave out --framerate"
        )
    if not text:
        raise ConfigError("a source is empty; give a folder of images")
    return FileAddress(path=Path(text), rate=rate)


def _parse_url(url: str, scheme: str) -> Address:
    if scheme not in (*NETWORK_SCHEMES, "test"):
        raise ConfigError(
            f"cannot read {masked(url)}: {scheme}:// is not a known scheme; give {_POSSIBLE}"
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    else:
        if scheme == "test":
            return _parse_pattern(parts)
    is_listening = scheme == "udp" and port is not None  # udp://@:1234 receives from any host
    if not (host or is_listening):
        raise ConfigError(
            f"cannot read {masked(url)}: it has no valid host and port; give "
            f"{scheme}://host:port/path, and {HOW_TO_WRITE}"
        )
    if scheme == "udp" and port is None:
        raise ConfigError(
            f"cannot read {masked(url)}: it has no port; give udp://@:port to receive on this "
            "machine, or udp://group:port for multicast"
        )
    url = scheme + url[len(scheme) :]
    if scheme not in _DEFAULT_PORTS:
        return NetworkAddress(url=url)
    plain, _, fragment = url.partition("#")
    return NetworkAddress(url=plain, trust=_parse_trust(fragment, masked(plain)))


def _parse_trust(fragment: str, name: str) -> TlsTrust | None:
    """Return the verification of a fragment; None: the fragment is empty.

    Raises:
        ConfigError: the fragment is invalid, or names no file; the message has `name`, the address
            without credentials.
    """
    kind, separator, value = fragment.partition("=")
    if not fragment:
        return None
    if fragment == "verify":
        return TlsTrust()
    if kind != "ca" or not separator:
        raise ConfigError(
            f"cannot read {name}: after # give verify or ca=FILE; write a # in a path as %23"
        )
    path = Path(unquote(value))
    try:
        ssl.create_default_context(cafile=str(path))
    except (OSError, ssl.SSLError) as error:
        reason = (getattr(error, "strerror", None) or "").lower()
        problem = "it has no certificate" if path.is_file() else reason or "no such file"
        raise ConfigError(
            f"cannot verify {name} with {path}: {problem}; give a file of certificates (PEM)"
        ) from error
    return TlsTrust(ca_file=path)


def _parse_path(path: Path, folder: Path | None) -> Iterator[Address]:
    if path.suffix.lower() == ".streams":
        if folder is not None:
            raise ConfigError(f"{path} is a list in a list; copy its lines into the first list")
        yield from _parse_list(path)
        return
    paths = [path]
    if glob.has_magic(str(path)) and not path.exists():
        # Path.glob needs a start folder and rejects absolute patterns.
        paths = [Path(match) for match in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207
        if not paths:
            raise ConfigError(f"no file matches {masked(str(path))}; check the folder")
    yield from (FileAddress(path=video) for video in find_videos(paths))


def _parse_list(path: Path) -> Iterator[Address]:
    try:
        if path.stat().st_size > _MAX_LIST_BYTES:
            raise ConfigError(f"{path} is larger than 1 MiB; check that it is a list of sources")
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise ConfigError(
            f"cannot read the list {path}: {reason.lower()}; write one source per line"
        ) from error
    texts = [re.split(r"(?:^|\s)#", line, maxsplit=1)[0].strip() for line in lines]
    if not any(texts):
        raise ConfigError(f"the list {path} has no source; write one source per line")
    for number, text in enumerate(texts, start=1):
        try:
            yield from _parse_source(text, path.parent) if text else ()
        except ConfigError as error:
            raise ConfigError(f"line {number} of {path}: {error}") from error


def _parse_pattern(parts: SplitResult) -> PatternAddress:
    parsers: dict[str, Callable[[str], Any]] = {
        "size": _parse_size,
        "rate": lambda text: _parse_positive("rate", text, 1000),
        "seconds": lambda text: _parse_positive("seconds", text, 10**9),
        "seed": _parse_seed,
    }
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(options.keys() - parsers.keys())
    if unknown or parts.netloc or parts.path.strip("/"):
        text = repr(", ".join(unknown)) if unknown else masked(parts.geturl())
        raise ConfigError(
            f"the options of a test pattern are size, rate, seconds and seed, got {text}; "
            "give, for example, test://?size=720x1280&rate=30&seconds=60&seed=1"
        )
    return PatternAddress(**{name: parsers[name](text) for name, text in options.items()})


def _parse_size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,5})x(\d{1,5})", text, re.ASCII)
    size = (int(match[1]), int(match[2])) if match else (0, 0)
    if min(size) < _MIN_SIDE or max(size) > _MAX_SIDE:
        raise ConfigError(
            f"size of a test pattern must be HEIGHTxWIDTH, each from {_MIN_SIDE} to {_MAX_SIDE}, "
            f"got {text!r}"
        )
    return size


def _parse_positive(name: str, text: str, maximum: int) -> Fraction:
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if not 0 < value <= maximum:
        raise ConfigError(
            f"{name} of a test pattern must be a number > 0 and <= {maximum}, got {text!r}"
        )
    return value


def _parse_seed(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise ConfigError(
            f"seed of a test pattern must be an integer from 0 to 999999999, got {text!r}"
        )
    return int(text)
