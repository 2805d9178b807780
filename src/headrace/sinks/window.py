"""A window with what the model saw, where there is a display."""

import io
from contextlib import ExitStack
from typing import Final

from headrace.errors import BackendError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.fan_out import FanOut, SinkSpec
from headrace.runtime.persistent_child import LineRpcProcess
from headrace.sinks.batch_results import ClassifiedBatch, DetectedBatch
from headrace.sinks.latest_images import LatestImages

_PROGRAM: Final = "headrace.sinks.window_main"


class WindowView:
    """Shows the newest picture of each source in a window: a `Sink`.

    It never holds up who writes: a picture is sent when the last one is on the screen, the newest
    there is then. Who closes the window ends this sink, and nothing else.
    """

    def __init__(self, title: str, names: tuple[str, ...], *, clock: Clock = SYSTEM_CLOCK) -> None:
        """Open the window; about 0.2 s.

        Args:
            title: Of the window, without credentials.
            names: Of the sources, for a reader, without credentials.
            clock: The run's.

        Raises:
            BackendError: there is no display, or Python came without Tk.
        """
        self._gallery = LatestImages(names, clock)
        self._process = LineRpcProcess(_PROGRAM, title)
        with ExitStack() as stack:
            stack.callback(self._process.close)
            found = self._process.read_line()
            if found != "ready":
                raise BackendError(
                    "no window can be opened: "
                    f"{found or 'this Python came without Tk (python3-tk)'}; "
                    "watch in a browser instead, with --view web"
                )
            outlet = SinkSpec(
                name="window", function=self._show, capacity=1, overflow="drop_oldest"
            )
            self._newest = stack.enter_context(FanOut([outlet], clock=clock))
            stack.callback(self._process.close)  # first: nobody waits for it any more
            self._stack = stack.pop_all()

    def write(self, seen: ClassifiedBatch | DetectedBatch) -> None:
        """Show the newest frame of a batch: see `Sink.write`; nothing once the window is closed."""
        self._newest.put(seen)

    def close(self) -> None:
        """Close the window: see `Sink.close`."""
        self._stack.close()

    @property
    def outputs(self) -> tuple[str, ...]:
        """No files."""
        return ()

    def _show(self, seen: ClassifiedBatch | DetectedBatch) -> None:
        self._gallery.show(seen)
        file = io.BytesIO()
        self._gallery.picture().save(file, "PPM")
        self._process.request(file.getvalue())
