"""Where a video comes from."""

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.video.source import Source


def test_a_source_is_made_of_a_path_a_string_or_itself(tmp_path):
    source = Source.of(str(tmp_path / "a.mp4"))
    assert source == Source(tmp_path / "a.mp4") == Source.of(source)
    assert str(source) == str(tmp_path / "a.mp4")


def test_a_source_is_made_of_a_string_with_a_stream(tmp_path):
    assert Source(str(tmp_path / "a.mp4"), 0) == Source(tmp_path / "a.mp4", stream=0)
    for stream in (-1, 1.0):
        with pytest.raises(ConfigError, match=f"stream must be an integer >= 0, got {stream}"):
            Source("a.mp4", stream)


def test_the_content_id_survives_a_copy_and_sees_a_change(tmp_path):
    first, second = tmp_path / "a.mp4", tmp_path / "b.mp4"
    first.write_bytes(bytes(300_000))
    second.write_bytes(bytes(300_000))
    assert Source(first).content_id() == Source(second).content_id()
    second.write_bytes(bytes(150_000) + b"x" + bytes(149_999))
    assert Source(first).content_id() != Source(second).content_id()


def test_a_small_file_has_a_content_id(tmp_path):
    Path(tmp_path / "a.mp4").write_bytes(b"x")
    assert len(Source(tmp_path / "a.mp4").content_id()) == 64
