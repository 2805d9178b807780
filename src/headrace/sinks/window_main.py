"""Window program: displays the images from stdin until the input ends or the window is closed.

It is a separate process, because Tk needs the main thread and may crash its process.
"""

import os
import sys
import tkinter
from tkinter import TclError
from typing import Final

_INPUT: Final = 0
_LENGTH: Final = 4


class _Window:
    """Window with one image, which confirms each displayed image."""

    def __init__(self, title: str) -> None:
        self._root = tkinter.Tk()
        self._root.title(title)
        self._root.configure(background="black")
        self._label = tkinter.Label(self._root, background="black", borderwidth=0)
        self._label.pack(expand=True)
        self._image: tkinter.PhotoImage | None = None

    def run(self) -> None:
        self._root.tk.createfilehandler(_INPUT, tkinter.READABLE, self._read)
        _send("ready")
        self._root.mainloop()

    def _read(self, *_: object) -> None:
        message = _read_message()
        if message is None:
            self._root.destroy()
            return
        self._image = tkinter.PhotoImage(data=message, format="PPM")  # Tk keeps no reference
        self._label.configure(image=self._image)
        self._root.update()
        _send("shown")


def main() -> None:
    """Open the window, or send the reason of the failure."""
    try:
        window = _Window(sys.argv[1])
    except TclError as error:
        _send(str(error))
        return
    window.run()


def _read_message() -> bytes | None:
    """Return one message; None at the end of the input."""
    length = int.from_bytes(_read_bytes(_LENGTH), "big")
    message = _read_bytes(length)
    return message if message and len(message) == length else None


def _read_bytes(count: int) -> bytes:
    """Return `count` bytes of the input; fewer at its end."""
    parts = []
    while count:
        part = os.read(_INPUT, count)
        if not part:
            break
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _send(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
