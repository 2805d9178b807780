"""Window with the latest results, on a display."""

import io
from contextlib import ExitStack
from typing import Any, Final

from headrace.errors import BackendError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.fan_out import FanOut, SinkSpec
from headrace.runtime.supervisor import LineRpcProcess
from headrace.sinks.batch_results import BatchResults
from headrace.sinks.painting import LatestImages

_PROGRAM: Final = "headrace.sinks.window_main"


class WindowView:
    """Window with the latest frame of each source: a `ResultSink`.

    Never blocks the run: when an image is displayed, the latest image is sent. Closing the window
    ends only this sink.
    """

    def __init__(self, title: str, names: tuple[str, ...], *, clock: Clock = SYSTEM_CLOCK) -> None:
        """Open the window; about 0.2 s.

        Args:
            title: Window title, without credentials.
            names: Names of the sources, without credentials.
            clock: Clock of the run.

        Raises:
            BackendError: there is no display, or this Python has no Tk.
        """
        self.name = "window"
        self._latest_images = LatestImages(names, clock)
        self._process = LineRpcProcess(_PROGRAM, title)
        with ExitStack() as stack:
            stack.callback(self._process.close)
            reply = self._process.read_line()
            if reply != "ready":
                raise BackendError(
                    f"cannot open a window: {reply or 'this Python has no Tk (python3-tk)'}; use a "
                    "browser instead, with --view web"
                )
            sink = SinkSpec(name="window", function=self._show, capacity=1, overflow="drop_oldest")
            self._fan_out = stack.enter_context(FanOut([sink], clock=clock))
            stack.callback(self._process.close)  # runs first, so that no call blocks on it
            self._stack = stack.pop_all()

    def write(self, results: BatchResults[Any]) -> None:
        """Show the newest frame: see `ResultSink.write`; no effect after the window closed."""
        self._fan_out.put(results)

    def close(self) -> None:
        """Close the window: see `ResultSink.close`."""
        self._stack.close()

    @property
    def outputs(self) -> tuple[str, ...]:
        """No files."""
        return ()

    def _show(self, results: BatchResults[Any]) -> None:
        self._latest_images.show(results)
        file = io.BytesIO()
        self._latest_images.image().save(file, "PPM")
        self._process.request(file.getvalue())
