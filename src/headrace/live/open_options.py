"""Options of live sources, and the restricted FFmpeg options of cameras and network streams.

A stream cannot make FFmpeg open another address: FFmpeg may use only the protocols of its scheme,
and only containers that refer to no other file. For certificates see `headrace.live.address`.
"""

import errno
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.live.address import CameraAddress, NetworkAddress
from headrace.live.connect_errors import ConnectError, ConnectProblem
from headrace.video.container import FORMATS


@dataclass(frozen=True, kw_only=True)
class BackOff:
    """Exponential back-off: each wait doubles, up to the longest. Without jitter."""

    first_seconds: float = 0.25
    """Wait before the first reconnection; short, because many cameras return at once."""
    longest_seconds: float = 2.0
    """Longest wait; bounds the delay of the first frame."""
    attempts: int | None = None
    """Consecutive attempts before giving up; None: no limit. A frame resets the count."""

    def before(self, attempt: int) -> float | None:
        """Return the seconds before an attempt, counted from 0; None after the last attempt."""
        if self.attempts is not None and attempt >= self.attempts:
            return None
        # A large exponent would overflow a float.
        return min(self.first_seconds * 2.0 ** min(attempt, 64), self.longest_seconds)


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options of all live sources of a run."""

    open_timeout_seconds: float = 5.0
    """Time limit of a connection attempt, and of a connection without a frame; also bounds the life
    of a thread that reads a dead connection."""
    stall_seconds: float = 1.5
    """Seconds without a frame that are a stall: twice the interval of slow cameras."""
    reconnect: BackOff = field(default_factory=BackOff)
    wait_for_source: bool = False
    """Whether to wait for a source that is missing at the start, with the same back-off. A wrong
    password always ends the source: some cameras lock out repeated attempts."""
    backlog_seconds: float = 0.2
    """Max age of a frame right after connecting, relative to the newest. Servers buffer seconds for
    new clients, which would delay every later frame."""
    keep: int = 8
    """Max decoded frames per source that wait for the pipeline; then the oldest is dropped, so that
    no frame waits in a server's buffer. A quarter of a second at 30 frames per second."""


_PROBE: Final = {"probesize": "5000", "analyzeduration": "100000"}
"""Bytes and microseconds of the stream probe. With FFmpeg's defaults, the first frames of RTSP are
2.8 s old; with smaller values, frames are lost (measured with av 18.1.0)."""
_LARGER_PROBE: Final = {"probesize": "500000", "analyzeduration": "500000"}
"""The same for streams that, unlike RTSP, do not declare their codec in advance."""
_PROTOCOLS: Final = {
    "rtsp": "rtsp,rtp,udp,tcp",
    "rtsps": "rtsp,rtsps,rtp,udp,tcp,tls",
    "http": "http,https,tcp,tls",
    "https": "https,tcp,tls",
    "udp": "udp",
}


def ffmpeg_options(
    address: NetworkAddress | CameraAddress, options: SourceOptions
) -> tuple[str | None, dict[str, str]]:
    """Return FFmpeg's format name of a source, and the options of its container and protocol.

    Without a name, FFmpeg detects the format among the allowed ones.
    """
    if isinstance(address, CameraAddress):
        return "v4l2", {}
    scheme = address.scheme
    microseconds = str(round(options.open_timeout_seconds * 1e6))
    ffmpeg = {"protocol_whitelist": _PROTOCOLS[scheme]}
    if address.trust is not None:
        ffmpeg |= address.trust.options()
    if scheme in ("rtsp", "rtsps"):
        # `timeout` applies to every socket read; PyAV's own timeout would take the GIL each time.
        return "rtsp", {**ffmpeg, **_PROBE, "rtsp_transport": "tcp", "timeout": microseconds}
    ffmpeg |= _LARGER_PROBE
    if scheme == "udp":
        # Lost data must mark frames as damaged, not raise an error.
        return "mpegts", {**ffmpeg, "timeout": microseconds, "overrun_nonfatal": "1"}
    return None, {**ffmpeg, "rw_timeout": microseconds, "format_whitelist": FORMATS}


def check_device(device: Path) -> None:
    """Check that a camera's device exists.

    Raises:
        ConnectError: it does not exist (the message lists the existing cameras), or this system is
            not Linux.
    """
    if not sys.platform.startswith("linux"):
        raise ConnectError(
            ConnectProblem(
                "cameras of this machine are read by Video4Linux, which only Linux has",
                "serve the camera with another program, and give its address, as in rtsp://host/path",
                is_lasting=True,
            )
        )
    if not device.is_char_device():
        cameras = cameras_here(device.parent)
        known = f"cameras here: {', '.join(cameras)}" if cameras else "no camera is connected"
        kind = "it is not a camera" if device.exists() else "the device does not exist"
        raise ConnectError(
            ConnectProblem(f"{kind}; {known}", "give another number, or connect a camera")
        )


def cameras_here(folder: Path = Path("/dev")) -> list[str]:
    """Return the camera devices, sorted by number."""
    paths = [path for path in folder.glob("video*") if path.name[5:].isdecimal()]
    return [str(path) for path in sorted(paths, key=lambda path: int(path.name[5:]))]


def camera_problem(error: Exception) -> ConnectProblem | None:
    """Return the problem of a camera's error; None for other errors."""
    number = getattr(error, "errno", None)
    if number == errno.EBUSY:
        return ConnectProblem(
            "another program uses the camera", "close that program, or give another camera"
        )
    if number in (errno.EACCES, errno.EPERM):
        return ConnectProblem(
            "this user has no access to the camera (permission denied)",
            "add the user to the group video, and log in again",
        )
    if number in (errno.ENODEV, errno.ENXIO, errno.ENOTTY):
        return ConnectProblem("the camera is gone, or the device is not a camera", "reconnect it")
    return None
