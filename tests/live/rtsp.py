"""What tests need of a real RTSP server."""

from headrace.testing.rtsp import RtspServer, can_serve_rtsp
from missing import missing

__all__ = ["RtspServer", "needs_server"]


def needs_server() -> None:
    """Skips the test where the server is not installed; with CI=true that is a failure."""
    if not can_serve_rtsp():
        missing("GStreamer's RTSP server is not installed")
<<<<<<< HEAD


class RtspServer:
    """Serves one file at a time on one port."""

    def __init__(self, *login: str, pem: Path | None = None) -> None:
        """Not started yet.

        Args:
            login: A user name and a password, or nothing.
            pem: Key and certificate, to be served by TLS.
        """
        self._login = login
        self._pem = pem
        self._port = "0"
        self._process: subprocess.Popen[str] | None = None

    def start(self, path: Path) -> None:
        """Serves `path`; on the port it had before, if it was started before."""
        script = Path(__file__).with_name("rtsp_server.py")
        command = [_SYSTEM_PYTHON, "-W", "ignore", script, path, self._port, self._pem or "-"]
        command += self._login
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._port = self._process.stdout.readline().strip()
        assert self._port, "the server did not start"

    def url(self, login: str = "", path: str = "/live") -> str:
        scheme = "rtsp" if self._pem is None else "rtsps"
        return f"{scheme}://{login}127.0.0.1:{self._port}{path}"

    def stop(self) -> None:
        """It falls silent; its connections stay open."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """It is gone, as at a power cut; nothing if it is not running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            self._process = None
=======
>>>>>>> benchlive
