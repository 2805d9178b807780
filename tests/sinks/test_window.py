"""A real window on a real X server that draws into a file."""

import os
import shutil
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.errors import BackendError
from headrace.runtime.supervisor import LineRpcProcess
from headrace.sinks.window import WindowView
from missing import missing
from runtime.in_time import in_time
from sinks.web.faked_run import seen

HEIGHT, WIDTH = 96, 128


class Screen:
    """What an X server shows."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def shades(self) -> set[int]:
        """All shades of grey on it."""
        dump = self._file.read_bytes()
        header, *_, colours = struct.unpack(">20I", dump[:80])
        pixels = dump[header + 12 * colours :]
        blue, green, red = (pixels[start::4] for start in range(3))
        triples = set(zip(blue, green, red, strict=True))
        return {one for one, *others in triples if {one} == set(others)}


@pytest.fixture
def screen(tmp_path: Path, monkeypatch) -> Iterator[Screen]:
    program = shutil.which("Xvfb")
    if program is None:
        missing("no Xvfb found")
    ready, theirs = os.pipe()
    size = ("-screen", "0", f"{WIDTH * 4}x{HEIGHT * 4}x24")
    process = subprocess.Popen(
        [program, "-displayfd", str(theirs), *size, "-fbdir", str(tmp_path), "-nolisten", "tcp"],
        pass_fds=(theirs,),
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    try:
        with os.fdopen(ready) as numbers:
            monkeypatch.setenv("DISPLAY", f":{numbers.readline().strip()}")
        yield Screen(tmp_path / "Xvfb_screen0")
    finally:
        process.terminate()
        process.wait()


def test_the_newest_picture_is_on_the_screen(screen: Screen):
    def run_it():
        window = WindowView("headrace", ("door",))
        assert not {96, 160} & screen.shades()
        for shade in (96, 160):
            while shade not in screen.shades():  # the server draws when it comes to it
                window.write(seen(1, shade=shade, size=(HEIGHT, WIDTH)))
        window.close()
        return screen.shades()

    assert 96 not in in_time(run_it)


def test_who_closes_the_window_ends_nothing_else(screen: Screen):
    def run_it():
        window = WindowView("headrace", ("door",))
        window.write(seen(1))
        window._process._process.kill()
        for number in range(3):
            window.write(seen(number))
        window.close()
        window.close()

    in_time(run_it)


def test_a_window_that_hangs_holds_neither_who_writes_nor_the_end(screen: Screen):
    def run_it():
        window = WindowView("headrace", ("door",))
        window._process._process.send_signal(signal.SIGSTOP)
        for number in range(50):
            window.write(seen(number, size=(720, 1280)))
        window.close()

    in_time(run_it)


def test_an_interrupt_while_it_is_opened_leaves_no_program(monkeypatch):
    """As by Ctrl-C, in the 0.2 s in which the program is waited for."""
    begun: list[LineRpcProcess] = []

    def interrupted(process: LineRpcProcess) -> None:
        begun.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(LineRpcProcess, "read_line", interrupted)
    with pytest.raises(KeyboardInterrupt):
        WindowView("headrace", ("door",))
    [process] = begun
    code = process._process.returncode
    process.close()
    assert code == -signal.SIGKILL


def test_without_a_display_it_says_what_to_do(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(BackendError, match=r"no window can be opened: no display .* --view web"):
        in_time(lambda: WindowView("headrace", ("door",)))
