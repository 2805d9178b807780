"""RTSP server of the tests, if it is installed."""

from headrace.testing.rtsp import RtspServer, can_serve_rtsp
from missing import missing

__all__ = ["RtspServer", "needs_server"]


def needs_server() -> None:
    """Skip the test if the server is not installed; with CI=true, fail."""
    if not can_serve_rtsp():
        missing("GStreamer's RTSP server is not installed")
