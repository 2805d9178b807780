"""What tests need of a real RTSP server."""

from headrace.testing.rtsp import RtspServer, can_serve_rtsp
from missing import missing

__all__ = ["RtspServer", "needs_server"]


def needs_server() -> None:
    """Skips the test where the server is not installed; with CI=true that is a failure."""
    if not can_serve_rtsp():
        missing("GStreamer's RTSP server is not installed")
