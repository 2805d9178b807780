"""Connection errors of live sources, described without addresses."""

import errno
from dataclasses import dataclass
from typing import Final

from headrace.video.container import describe


@dataclass(frozen=True)
class ConnectProblem:
    """Reason for a failed connection, with advice."""

    words: str
    """Reason, without source name, address and credentials."""
    advice: str
    is_lasting: bool = False
    """Whether further attempts are useless."""


class ConnectError(Exception):
    """A connection failed. Internal to `live`; an OpenError with the source replaces it."""

    def __init__(self, problem: ConnectProblem) -> None:
        super().__init__(problem.words)
        self.problem = problem


NO_ANSWER: Final = ConnectProblem(
    "no answer came in time", "check that the host is up and reachable"
)
_KNOWN: Final = {
    "HTTPUnauthorizedError": ConnectProblem(
        "it refused the user name or password, or requires one (401 unauthorized)",
        "give them in the address, as in rtsp://user:password@host/path",
        is_lasting=True,
    ),
    "HTTPForbiddenError": ConnectProblem(
        "it refuses access to this user (403 forbidden)",
        "give another user in the address, or allow this one on the camera",
        is_lasting=True,
    ),
    "HTTPNotFoundError": ConnectProblem(
        "the host answers, but the path does not exist (404 not found)",
        "check the path in the manual of the camera or server",
    ),
    "ConnectionRefusedError": ConnectProblem(
        "the host is up, but refuses connections to this port",
        "check the server and the port",
    ),
    "TimeoutError": NO_ANSWER,
    "ConnectionResetError": ConnectProblem(
        "the connection was reset", "check the log of the server"
    ),
    "BrokenPipeError": ConnectProblem("the connection was closed", "check the log of the server"),
    "ProtocolNotFoundError": ConnectProblem(
        "it redirects to a forbidden kind of address, such as a local file",
        "give the address of the stream itself",
        is_lasting=True,
    ),
    "InvalidDataError": ConnectProblem(
        "it sends an unknown format instead of a video stream",
        "give the address of the stream itself",
    ),
}
BROKEN: Final = ConnectProblem(
    "the connection broke (input/output error)", "check the log of the server"
)
"""Input/output error of an open connection."""
_BY_NUMBER: Final = {
    errno.EIO: ConnectProblem(
        "the host was not found, or hung up (input/output error)",
        "check the name of the host, and the network",
    ),
    errno.ENETUNREACH: ConnectProblem(
        "the network is unreachable", "check the network of this machine"
    ),
    errno.EHOSTUNREACH: ConnectProblem("the host is unreachable", "check the host and the network"),
}


_PLAYLISTS: Final = {b"#EXTM3U": "an HLS playlist", b"<MPD": "a DASH manifest"}


def playlist_problem(head: bytes) -> ConnectProblem | None:
    """Return the problem of a response that starts like a playlist; None: no playlist."""
    kind = next((kind for marker, kind in _PLAYLISTS.items() if marker in head), None)
    if kind is None:
        return None
    return ConnectProblem(
        f"it sends {kind}, which is not supported: a playlist can name addresses on any host, and "
        "FFmpeg cannot restrict them",
        "give the address of the stream itself, such as the camera's rtsp://; or run ffmpeg -i "
        "ADDRESS -c copy -f mpegts udp://127.0.0.1:5000, and give udp://127.0.0.1:5000",
        is_lasting=True,
    )


def connect_problem_of(error: Exception) -> ConnectProblem:
    """Return the problem of an FFmpeg error, without its text, which may contain the address."""
    known = _KNOWN.get(type(error).__name__) or _BY_NUMBER.get(getattr(error, "errno", 0) or 0)
    if known is not None:
        return known
    has_text = bool(getattr(error, "strerror", None))
    words = describe(error) if has_text else type(error).__name__
    return ConnectProblem(f"it cannot be read ({words})", "check that other programs can read it")
