"""A real window on a real X server, whose screen is a file."""

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
from sinks.web.faked_run import labelled_frame

HEIGHT, WIDTH = 96, 128


class Screen:
    """Screen of an X server."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def shades(self) -> set[int]:
        """Return all shades of grey on the screen."""
        dump = self._file.read_bytes()
        header, *_, num_colors = struct.unpack(">20I", dump[:80])
        pixels = dump[header + 12 * num_colors :]
        blue, green, red = (pixels[start::4] for start in range(3))
        colors = set(zip(blue, green, red, strict=True))
        return {b for b, g, r in colors if b == g == r}


@pytest.fixture
def screen(tmp_path: Path, monkeypatch) -> Iterator[Screen]:
    program = shutil.which("Xvfb")
    if program is None:
        missing("no Xvfb found")
    reading, writing = os.pipe()
    size = ("-screen", "0", f"{WIDTH * 4}x{HEIGHT * 4}x24")
    process = subprocess.Popen(
        [program, "-displayfd", str(writing), *size, "-fbdir", str(tmp_path), "-nolisten", "tcp"],
        pass_fds=(writing,),
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    try:
        with os.fdopen(reading) as file:
            monkeypatch.setenv("DISPLAY", f":{file.readline().strip()}")
        yield Screen(tmp_path / "Xvfb_screen0")
    finally:
        process.terminate()
        process.wait()


def test_the_latest_frame_is_displayed(screen: Screen):
    def run_it():
        window = WindowView("headrace", ("door",))
        assert not {96, 160} & screen.shades()
        for shade in (96, 160):
            while shade not in screen.shades():  # the server draws asynchronously
                window.write(labelled_frame(1, shade=shade, size=(HEIGHT, WIDTH)))
        window.close()
        return screen.shades()

    assert 96 not in in_time(run_it)


def test_closing_the_window_ends_only_the_sink(screen: Screen):
    def run_it():
        window = WindowView("headrace", ("door",))
        window.write(labelled_frame(1))
        window._process._process.kill()
        for number in range(3):
            window.write(labelled_frame(number))
        window.close()
        window.close()

    in_time(run_it)


def test_a_hung_window_blocks_neither_write_nor_close(screen: Screen):
    def run_it():
        window = WindowView("headrace", ("door",))
        window._process._process.send_signal(signal.SIGSTOP)
        for number in range(50):
            window.write(labelled_frame(number, size=(720, 1280)))
        window.close()

    in_time(run_it)


def test_an_interrupt_while_the_window_opens_leaves_no_process(monkeypatch):
    """Ctrl-C while the constructor waits for the process."""
    started: list[LineRpcProcess] = []

    def interrupt(process: LineRpcProcess) -> None:
        started.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(LineRpcProcess, "read_line", interrupt)
    with pytest.raises(KeyboardInterrupt):
        WindowView("headrace", ("door",))
    [process] = started
    code = process._process.returncode
    process.close()
    assert code == -signal.SIGKILL


def test_the_error_of_a_missing_display_has_advice(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(BackendError, match=r"cannot open a window: no display .* --view web"):
        in_time(lambda: WindowView("headrace", ("door",)))
