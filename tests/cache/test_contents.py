"""Digests of whole files, read once for each version."""

import os

import pytest

from headrace.cache.contents import FILE, SETTLED_SECONDS, ContentDigests
from headrace.errors import OpenError
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.testing.fake_clock import FakeClock
from headrace.video.source import Source


@pytest.fixture
def clock():
    """Files that a test writes have settled by it."""
    return FakeClock(wall_seconds=SYSTEM_CLOCK.wall_seconds() + 2 * SETTLED_SECONDS)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.mp4"
    path.write_bytes(b"frames" * 1000)
    return path


def test_a_file_is_read_once_for_each_version_also_by_other_processes(tmp_path, file, clock):
    with ContentDigests(tmp_path, clock=clock) as first:
        digest = first.of(Source(file))
        assert first.of(Source(file)) == digest
        assert first.read == 1
    with ContentDigests(tmp_path, clock=clock) as later:
        assert later.of(Source(file)) == digest
        assert later.read == 0
        file.write_bytes(b"Frames" * 1000)
        assert later.of(Source(file)) != digest
        assert later.read == 1


def test_content_counts_not_the_name(tmp_path, file, clock):
    copy, other = tmp_path / "b.mp4", tmp_path / "c.mp4"
    copy.write_bytes(file.read_bytes())
    content = bytearray(file.read_bytes())
    content[3000] ^= 1
    other.write_bytes(content)
    with ContentDigests(tmp_path, clock=clock) as contents:
        assert contents.of(Source(copy)) == contents.of(Source(file)) != contents.of(Source(other))


def test_a_file_put_in_place_with_the_same_size_and_time_is_read(tmp_path, file, clock):
    with ContentDigests(tmp_path, clock=clock) as contents:
        digest = contents.of(Source(file))
        before = file.stat()
        file.write_bytes(b"Frames" * 1000)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert contents.of(Source(file)) != digest


def test_a_file_that_has_just_changed_is_read_again(tmp_path, file):
    with ContentDigests(tmp_path) as contents:
        contents.of(Source(file))
        contents.of(Source(file))
        assert contents.read == 2


@pytest.mark.parametrize("damage", ["garbage", "a folder"])
def test_a_table_that_cannot_be_read_costs_reading_the_file(tmp_path, file, clock, damage):
    table = tmp_path / FILE
    if damage == "garbage":
        table.write_bytes(b"\xa5" * 4096)
    else:
        table.mkdir()
    with ContentDigests(tmp_path, clock=clock) as contents:
        assert contents.of(Source(file)) == contents.of(Source(file))
        assert contents.read == 1


def test_what_is_no_file_is_an_open_error(tmp_path, clock):
    (tmp_path / "empty").write_bytes(b"")
    with ContentDigests(tmp_path, clock=clock) as contents:
        for name in ("gone", "empty", "."):
            with pytest.raises(OpenError):
                contents.of(Source(tmp_path / name))


class ChangingClock(FakeClock):
    """Changes a file when it is first asked the time, which is while the file is looked at."""

    def __init__(self, file):
        super().__init__()
        self.file = file

    def wall_seconds(self):
        if self.file is not None:
            self.file.write_bytes(b"more frames")
            self.file = None
        return super().wall_seconds()


def test_a_file_that_changes_while_it_is_read_is_told(tmp_path, file):
    with (
        ContentDigests(tmp_path, clock=ChangingClock(file)) as contents,
        pytest.raises(OpenError, match="changed while it was read"),
    ):
        contents.of(Source(file))
