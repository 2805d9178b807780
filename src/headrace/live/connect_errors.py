"""Why a source cannot be read, in words for its user, without its address."""

import errno
from dataclasses import dataclass
from typing import Final

from headrace.video.ffmpeg_errors import describe


@dataclass(frozen=True)
class ConnectProblem:
    """Why a connection failed."""

    words: str
    """What was found; no name, no address, no secret."""
    advice: str
    is_lasting: bool = False
    """Trying again cannot help."""


class ConnectError(Exception):
    """A connection cannot be made, or broke. Stays inside `live`."""

    def __init__(self, problem: ConnectProblem) -> None:
        super().__init__(problem.words)
        self.problem = problem


NO_ANSWER: Final = ConnectProblem(
    "no answer came in time", "see whether the host is up and reachable"
)
_KNOWN: Final = {
    "HTTPUnauthorizedError": ConnectProblem(
        "it refused the user name or password, or asks for one (401 unauthorized)",
        "give them in the address, as in rtsp://user:password@host/path",
        is_lasting=True,
    ),
    "HTTPForbiddenError": ConnectProblem(
        "it does not allow this user to see it (403 forbidden)",
        "give another user in the address, or allow this one on the camera",
        is_lasting=True,
    ),
    "HTTPNotFoundError": ConnectProblem(
        "the host answers, but has nothing of that path (404 not found)",
        "see the path in the manual of the camera or server",
    ),
    "ConnectionRefusedError": ConnectProblem(
        "the host is there, but refuses connections to that port",
        "see whether the server runs, and the port",
    ),
    "TimeoutError": NO_ANSWER,
    "ConnectionResetError": ConnectProblem("the connection was reset", "see the log of the server"),
    "BrokenPipeError": ConnectProblem("the connection was closed", "see the log of the server"),
    "ProtocolNotFoundError": ConnectProblem(
        "it leads on to a kind of address that is not allowed here, such as a local file",
        "give the address of the stream itself",
        is_lasting=True,
    ),
    "InvalidDataError": ConnectProblem(
        "what it sends is no video stream that is known here",
        "give the address of the stream itself",
    ),
}
BROKEN: Final = ConnectProblem(
    "the connection broke (input/output error)", "see the log of the server"
)
"""What input/output errors mean once a connection is open."""
_BY_NUMBER: Final = {
    errno.EIO: ConnectProblem(
        "the host was not found, or hung up (input/output error)",
        "see the name of the host, and the network",
    ),
    errno.ENETUNREACH: ConnectProblem(
        "the network cannot be reached", "see the network of this machine"
    ),
    errno.EHOSTUNREACH: ConnectProblem(
        "there is no way to the host", "see whether it is up, and the network"
    ),
}


_PLAYLISTS: Final = {b"#EXTM3U": "an HLS playlist", b"<MPD": "a DASH manifest"}


def playlist_problem(head: bytes) -> ConnectProblem | None:
    """Return what is wrong where an answer that begins so names other addresses to be read."""
    kind = next((kind for mark, kind in _PLAYLISTS.items() if mark in head), None)
    if kind is None:
        return None
    return ConnectProblem(
        f"it sends {kind}, which is not read: it names further addresses, on any host, and no "
        "option of FFmpeg keeps it to this one",
        "give the stream's own address, such as the camera's rtsp://; or have it read by ffmpeg -i "
        "ADDRESS -c copy -f mpegts udp://127.0.0.1:5000, and give udp://127.0.0.1:5000",
        is_lasting=True,
    )


def connect_problem_of(error: Exception) -> ConnectProblem:
    """Return what an error of FFmpeg means; its own text may hold the address, and is not kept."""
    known = _KNOWN.get(type(error).__name__) or _BY_NUMBER.get(getattr(error, "errno", 0) or 0)
    if known is not None:
        return known
    has_own_words = bool(getattr(error, "strerror", None))
    words = describe(error) if has_own_words else type(error).__name__
    return ConnectProblem(f"it cannot be read ({words})", "see whether other programs can read it")
