"""The id of a file is that of what is in it."""

import pytest

from headrace.profiling.inputs import with_content
from headrace.video.content import content_digest
from report.recorded import SOURCE


def test_a_copy_has_the_same_id_and_a_changed_file_another(tmp_path):
    first, copy, other = (tmp_path / name for name in "abc")
    first.write_bytes(b"frames" * 1000)
    copy.write_bytes(b"frames" * 1000)
    other.write_bytes(b"frames" * 999 + b"framed")
    assert content_digest(first) == content_digest(copy) != content_digest(other)
    assert content_digest(first).startswith("sha256:")


@pytest.mark.parametrize("changed", [0, -1])
def test_a_large_file_is_known_by_its_size_and_pieces_of_it_and_says_so(tmp_path, changed):
    first, other, longer = (tmp_path / name for name in "abc")
    content = bytearray(3 << 20)
    first.write_bytes(content)
    longer.write_bytes(content + b"\0")
    content[changed] = 1
    other.write_bytes(content)
    ids = [content_digest(each, whole_bytes=1 << 20) for each in (first, other, longer)]
    assert len(set(ids)) == 3
    assert all(each.startswith("sampled-sha256:") for each in ids)
    assert content_digest(first) != ids[0]


def test_what_cannot_be_read_has_none(tmp_path):
    assert content_digest(tmp_path / "gone") is None
    assert content_digest(tmp_path) is None


def test_videos_get_the_id_of_their_files(tmp_path):
    file = tmp_path / "a.mp4"
    file.write_bytes(b"frames")
    videos = [SOURCE.model_copy(update={"path": str(path)}) for path in (file, tmp_path / "gone")]
    assert [video.content for video in with_content(videos)] == [content_digest(file), None]
