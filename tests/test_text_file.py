"""Files are complete, or unchanged."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.atomic_file import partial_of, write_bytes_whole, write_whole
from headrace.errors import ConfigError


def test_an_existing_file_is_replaced(tmp_path):
    path = tmp_path / "report.html"
    for text in ("one", "zwei äöü"):
        write_whole(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert list(tmp_path.iterdir()) == [path]


def test_an_existing_file_is_unchanged_if_writing_fails(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    write_whole(path, "before")

    def cut_off(self, content):
        with self.open("wb") as file:
            file.write(content[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(path), "write_bytes", cut_off)
    with pytest.raises(ConfigError, match=r"cannot write .*report.html: no space left on device"):
        write_whole(path, "after")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="not a directory; give a folder that can be written to"):
        write_whole(tmp_path / "file" / "report.html", "text")


def test_a_killed_process_leaves_no_file_of_that_name(tmp_path, monkeypatch):
    path = tmp_path / "picture.png"

    def killed(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(path), "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_bytes_whole(path, b"whole")
    [left] = tmp_path.iterdir()
    assert left.match(partial_of(Path("*")).name)
    monkeypatch.undo()
    write_bytes_whole(path, b"whole")  # the leftover does not matter
    assert path.read_bytes() == b"whole"


WRITER = """
import sys
from pathlib import Path
from headrace.atomic_file import write_whole

print(flush=True)
sys.stdin.readline()
for _ in range(300):
    write_whole(Path(sys.argv[1]), sys.argv[2] * int(sys.argv[3]))
"""


def test_processes_that_write_one_file_at_once_leave_it_complete(tmp_path):
    """As ranks do. A concurrent reader sees one complete text."""
    path = tmp_path / "index.json"
    texts = [("a", 100_000), ("b", 30_000)]
    write_whole(path, "a" * 100_000)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), letter, str(times)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for letter, times in texts
    ]
    for writer in writers:
        writer.stdout.readline()
    for writer in writers:
        writer.stdin.write("\n")
        writer.stdin.flush()
    seen = set()
    while any(writer.poll() is None for writer in writers):
        seen.add(path.read_text())
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    assert seen <= {letter * times for letter, times in texts}
    assert list(tmp_path.iterdir()) == [path]
