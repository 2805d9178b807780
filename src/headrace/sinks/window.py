"""A window with what the model saw, where there is a display."""

import io
from typing import Final

from headrace.errors import BackendError
from headrace.runtime.clock import SYSTEM_CLOCK, Clock
from headrace.runtime.fed_process import FedProcess
from headrace.sinks.caption import captions
from headrace.sinks.gallery import Gallery
from headrace.sinks.seen import Seen

_PROGRAM: Final = "headrace.sinks.window_main"


class WindowView:
    """Shows the newest picture of each source in a window: a `Sink`.

    Best behind a queue of one that drops the oldest: a picture is sent when the last one is on the
    screen. Who closes the window ends this sink, and nothing else.
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
        self._gallery = Gallery(names, clock)
        self._process = FedProcess(_PROGRAM, title)
        found = self._process.answer()
        if found != "ready":
            self._process.close()
            raise BackendError(
                f"no window can be opened: {found or 'this Python came without Tk (python3-tk)'}; "
                "watch in a browser instead, with --view web"
            )
        self._is_open = True

    def write(self, seen: Seen) -> None:
        """Show the newest frame of a batch: see `Sink.write`; nothing once the window is closed."""
        if self._is_open:
            self._gallery.show(seen.batch.video, seen.batch.frames[-1], captions(seen)[-1])
            file = io.BytesIO()
            self._gallery.picture().save(file, "PPM")
            self._is_open = self._process.ask(file.getvalue()) is not None

    def close(self) -> None:
        """Close the window: see `Sink.close`."""
        self._is_open = False
        self._process.close()

    @property
    def outputs(self) -> tuple[str, ...]:
        """No files."""
        return ()
