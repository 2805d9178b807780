"""How a camera or a network stream is opened: what FFmpeg is told, as a value, and what it may do.

Nothing that a stream says can make FFmpeg open anything else: only the protocols that its own
scheme needs are allowed, and of containers those that name no other files. Certificates of rtsps
and https are verified where the address says so: see `headrace.live.tls`.
"""

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.live.address import CameraAddress, NetworkAddress
from headrace.live.connect_errors import ConnectError, ConnectProblem
from headrace.live.source_options import SourceOptions
from headrace.live.tls import TlsTrust
from headrace.video.container import FORMATS

_PROBE: Final = {"probesize": "5000", "analyzeduration": "100000"}
"""Bytes and microseconds that are read to learn what a stream is. By FFmpeg's own, the first frames
of RTSP are 2.8 s old; with less it loses frames (shared/field: measured with av 18.1.0)."""
_LARGER_PROBE: Final = {"probesize": "500000", "analyzeduration": "500000"}
"""Where the stream itself must say what it is: RTSP is told so beforehand."""
_PROTOCOLS: Final = {
    "rtsp": "rtsp,rtp,udp,tcp",
    "rtsps": "rtsp,rtsps,rtp,udp,tcp,tls",
    "http": "http,https,tcp,tls",
    "https": "https,tcp,tls",
    "udp": "udp",
}


@dataclass(frozen=True, kw_only=True)
class OpenOptions:
    """What to open, and how."""

    name: str
    """For a reader, without credentials."""
    url: str = field(repr=False)
    """For FFmpeg, with credentials."""
    format: str | None
    """FFmpeg's name of what is there; None: one of those that are allowed."""
    options: Mapping[str, str]
    """FFmpeg's, for the container and its protocol."""
    trust: TlsTrust | None = None
    """How the certificate of the host is verified."""
    hint: str = ""
    """What may be wrong with the address itself."""


def open_options_of(address: NetworkAddress | CameraAddress, options: SourceOptions) -> OpenOptions:
    """Return how the source is opened."""
    if isinstance(address, CameraAddress):
        device = str(address.device)
        return OpenOptions(name=address.name, url=device, format="v4l2", options={})
    scheme = address.scheme
    microseconds = str(round(options.open_timeout_seconds * 1e6))
    told = {"protocol_whitelist": _PROTOCOLS[scheme]}
    if address.trust is not None:
        told |= address.trust.options()
    if scheme in ("rtsp", "rtsps"):
        # `timeout`: of every read of the socket; FFmpeg's own, as PyAV's takes the GIL each time.
        told |= {**_PROBE, "rtsp_transport": options.transport, "timeout": microseconds}
        return _opening(address, "rtsp", told)
    told |= _LARGER_PROBE
    if scheme == "udp":
        # Lost data is not an error, but frames that are marked damaged.
        told |= {"timeout": microseconds, "overrun_nonfatal": "1"}
        return _opening(address, "mpegts", told)
    told |= {"rw_timeout": microseconds, "format_whitelist": FORMATS}
    return _opening(address, None, told)


def _opening(address: NetworkAddress, kind: str | None, told: Mapping[str, str]) -> OpenOptions:
    return OpenOptions(
        name=address.name,
        url=address.url,
        format=kind,
        options=told,
        trust=address.trust,
        hint=address.hint,
    )


def check_device(opening: OpenOptions) -> None:
    """Do nothing if a camera's device is there.

    Raises:
        ConnectError: it is not; the words name those that are.
    """
    device = Path(opening.url)
    if not device.is_char_device():
        cameras = cameras_here(device.parent)
        found = f"cameras here are {', '.join(cameras)}" if cameras else "there is no camera here"
        kind = "it is no camera" if device.exists() else "there is no such device"
        raise ConnectError(
            ConnectProblem(f"{kind}; {found}", "give another number, or plug one in")
        )


def cameras_here(folder: Path = Path("/dev")) -> list[str]:
    """Return the devices of cameras, sorted by number."""
    found = [path for path in folder.glob("video*") if path.name[5:].isdecimal()]
    return [str(path) for path in sorted(found, key=lambda path: int(path.name[5:]))]


def camera_problem(error: Exception) -> ConnectProblem | None:
    """Return what an error means that only a camera has; None for any other."""
    number = getattr(error, "errno", None)
    if number == errno.EBUSY:
        return ConnectProblem(
            "another program uses the camera", "end that one, or give another camera"
        )
    if number in (errno.EACCES, errno.EPERM):
        return ConnectProblem(
            "this user may not use the camera (permission denied)",
            "add the user to the group video, and log in again",
        )
    if number in (errno.ENODEV, errno.ENXIO, errno.ENOTTY):
        return ConnectProblem("the camera is gone, or the device is none", "plug it in again")
    return None
