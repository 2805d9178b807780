"""RTSP server process for tests, which can be paused, resumed, killed and restarted."""

import shutil
import signal
import subprocess
from pathlib import Path

_SYSTEM_PYTHON = "/usr/bin/python3"
_CAN_SERVE = (
    "import gi; gi.require_version('GstRtspServer', '1.0'); "
    "from gi.repository import GstRtspServer, Gst; Gst.init(None); "
    "assert all(map(Gst.ElementFactory.find, ('qtdemux', 'h264parse', 'rtph264pay')))"
)


def can_serve_rtsp() -> bool:
    """Return whether GStreamer's RTSP server is installed; takes some 0.1 s."""
    if shutil.which(_SYSTEM_PYTHON) is None:
        return False
    command = [_SYSTEM_PYTHON, "-W", "ignore", "-c", _CAN_SERVE]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class RtspServer:
    """Server of one file at a time on one local port."""

    def __init__(self, *login: str, pem: Path | None = None) -> None:
        """Start nothing yet.

        Args:
            login: User name and password; none: without authentication.
            pem: File with a key and a certificate for TLS; None: without TLS.
        """
        self._login = login
        self._pem = pem
        self._port = "0"
        self._process: subprocess.Popen[str] | None = None

    def start(self, path: Path) -> None:
        """Serve `path`, on the port of the first start."""
        script = Path(__file__).with_name("rtsp_server.py")
        served = (str(path), self._port, str(self._pem or "-"), *self._login)
        command = [_SYSTEM_PYTHON, "-W", "ignore", str(script), *served]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._port = self._line()
        assert self._port, "the server did not start"

    def url(self, login: str = "", path: str = "/live") -> str:
        """Return the URL; `login` is "user:password@"."""
        scheme = "rtsp" if self._pem is None else "rtsps"
        return f"{scheme}://{login}127.0.0.1:{self._port}{path}"

    def next_client_ns(self) -> int:
        """Wait until a client plays; return the moment of its pts 0, by `time.perf_counter_ns`.

        Raises:
            ValueError: the server was killed.
        """
        return int(self._line())

    def stop(self) -> None:
        """Pause the server; its connections stay open."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Resume the server, which first sends the packets due meanwhile."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the server, if it runs, like a power cut."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None

    def _line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
