"""The program behind a window: shows the pictures it is sent, until they end or it is closed.

It has a process of its own since a toolkit wants the main thread, and may take the process with it.
"""

import os
import sys
import tkinter
from tkinter import TclError
from typing import Final

_INPUT: Final = 0
_LENGTH: Final = 4


class _Window:
    """Shows one picture at a time, each answered when it can be seen."""

    def __init__(self, title: str) -> None:
        self._root = tkinter.Tk()
        self._root.title(title)
        self._root.configure(background="black")
        self._label = tkinter.Label(self._root, background="black", borderwidth=0)
        self._label.pack(expand=True)
        self._picture: tkinter.PhotoImage | None = None

    def run(self) -> None:
        self._root.tk.createfilehandler(_INPUT, tkinter.READABLE, self._read)
        _tell("ready")
        self._root.mainloop()

    def _read(self, *_: object) -> None:
        message = _message()
        if message is None:
            self._root.destroy()
            return
        self._picture = tkinter.PhotoImage(data=message, format="PPM")  # Tk keeps none by itself
        self._label.configure(image=self._picture)
        self._root.update()
        _tell("shown")


def main() -> None:
    """Open the window, or say why there is none."""
    try:
        window = _Window(sys.argv[1])
    except TclError as error:
        _tell(str(error))
        return
    window.run()


def _message() -> bytes | None:
    """One message; None at the end of the input."""
    length = int.from_bytes(_bytes(_LENGTH), "big")
    message = _bytes(length)
    return message if message and len(message) == length else None


def _bytes(count: int) -> bytes:
    """So many bytes of the input; fewer at its end."""
    parts = []
    while count:
        part = os.read(_INPUT, count)
        if not part:
            break
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
