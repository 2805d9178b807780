"""Where videos come from: paths, folders, lists."""

import re
from pathlib import Path

import pytest

from headrace.bench.benchmark import make_folder
from headrace.errors import ConfigError
from headrace.extraction.ledger import Ledger
from headrace.runs.outputs import claim
from headrace.video.image_sequence import ImageSequence
from headrace.video.manifest import find_videos
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


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://example.com/a.mp4", "https://example.com "),
        ("https:/example.com/a.mp4", "https://example.com "),
        ("S3://bucket/a.mp4", "s3://bucket "),
        ("gs://bucket", "gs://bucket "),
        ("http://[::1]:80/a.mp4", "http://[::1]:80 "),
        ("file:///data/a.mp4", "file:// "),
        ("https://bob:p@ss/w@host/a.mp4", "https://... "),
        ("https://bob:pass@host/a.mp4", "https://... "),
        ("https://host?key=secret", "https://... "),
    ],
)
def test_an_address_is_no_path(address, shown):
    for ask in (Source.of, Source, lambda path: find_videos([path])):
        for path in (address, Path(address)):
            with pytest.raises(
                ConfigError, match=rf"^{re.escape(shown)}is an address, and"
            ) as found:
                ask(path)
            assert not re.search("secret|ss/w|pass|bob", str(found.value))
    with pytest.raises(ConfigError, match="addresses are not read here"):
        ImageSequence(address, rate=10)


@pytest.mark.parametrize("name", ["a:b.mp4", "C:/a.mp4", "x/https://a.mp4", "://a.mp4", "1:/a.mp4"])
def test_a_path_may_hold_such_characters(name):
    assert Source.of(name).path == Path(name)


def test_a_folder_may_be_called_like_a_scheme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("take2:").mkdir()
    assert Source.of("take2:/a.mp4").path == Path("take2:/a.mp4")


@pytest.mark.parametrize("suffix", [".txt", ".csv", ".jsonl"])
def test_a_list_that_names_an_address_says_in_which_row(tmp_path, suffix):
    row = {".csv": "path\ns3://b/a.mp4", ".jsonl": '{"path": "s3://b/a.mp4"}'}
    listed = tmp_path / f"list{suffix}"
    listed.write_text(row.get(suffix, "s3://b/a.mp4"), encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"list{re.escape(suffix)}.*: s3://b is an address"):
        find_videos([listed])


def checked_ledger(folder):
    Ledger(folder).check(None)


@pytest.mark.parametrize("claim_folder", [claim, make_folder, checked_ledger])
@pytest.mark.parametrize("out", ["s3://bucket/out", "s3:/bucket/out"])
def test_nothing_is_written_to_an_address(claim_folder, out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="s3://bucket is an address, and nothing is written"):
        claim_folder(Path(out))
    assert not list(tmp_path.iterdir())


def test_files_stay_as_given_and_folders_give_their_videos_sorted(tmp_path):
    for name in ("b.MP4", "a.mov", "notes.txt", "deep/c.mkv"):
        path = tmp_path / "folder" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(b"x")
    found = find_videos([tmp_path / "no-suffix", tmp_path / "folder"])
    assert [str(path.relative_to(tmp_path)) for path in found] == [
        *("no-suffix", "folder/a.mov", "folder/b.MP4", "folder/deep/c.mkv")
    ]


def test_a_folder_without_videos_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(ConfigError, match="holds no file that is named like a video"):
        find_videos([tmp_path])


def test_ten_thousand_links_are_found(tmp_path):
    (tmp_path / "a.mp4").write_bytes(b"x")
    for k in range(10_000):
        (tmp_path / f"{k:05}.mp4").symlink_to("a.mp4")
    assert len(find_videos([tmp_path])) == 10_001


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list.txt", "a.mp4\n\n  deep/b.mp4\n/elsewhere/c.mp4\n"),
        ("list.csv", "label,path\n1,a.mp4\n2,deep/b.mp4\n3,/elsewhere/c.mp4\n"),
        ("LIST.CSV", "\ufeffvideo\na.mp4\ndeep/b.mp4\n/elsewhere/c.mp4\n"),
        ("list.csv", "a.mp4,1\ndeep/b.mp4,2\n/elsewhere/c.mp4,3\n"),
        ("list.txt", "a.mp4 1\ndeep/b.mp4\tlong jump 7\n/elsewhere/c.mp4  2\n"),
        ("list.tsv", "file\tlabel\na.mp4\t1\ndeep/b.mp4\t2\n/elsewhere/c.mp4\t3\n"),
        ("list.jsonl", '{"path": "a.mp4"}\n"deep/b.mp4"\n\n{"path": "/elsewhere/c.mp4"}\n'),
    ],
)
def test_a_list_names_videos_from_where_it_lies(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = find_videos([tmp_path / name])
    assert [str(each) for each in found] == [
        str(tmp_path / "a.mp4"),
        str(tmp_path / "deep/b.mp4"),
        "/elsewhere/c.mp4",
    ]


def test_a_path_may_hold_blanks_with_and_without_a_label(tmp_path):
    (tmp_path / "list.txt").write_text("my video.mp4\nmy video.mp4 3\na.mp4 b.mp4\nno suffix\n")
    found = find_videos([tmp_path / "list.txt"])
    names = [str(each.relative_to(tmp_path)) for each in found]
    assert names == ["my video.mp4", "my video.mp4", "a.mp4 b.mp4", "no suffix"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("list.txt", b"\n", "lists no video"),
        (
            "list.csv",
            b"name,label\na.mp4,1\n",
            "one column of paths, called .*; it has name",
        ),
        ("list.csv", b"label,path\n1,a.mp4\n2,\n", "line 3 of .* names no video"),
        ("list.jsonl", b"{a}\n", "line 1 of .* is no JSON"),
        ("list.jsonl", b'{"n": 1}\n', "one column of paths"),
        ("list.txt", b"\xff\xfe\x00", "no text in UTF-8"),
        ("list.csv", b"x" * 200_000, "line 1 of .* is no CSV: field larger"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        find_videos([tmp_path / name])


def test_a_list_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*gone\.csv"):
        find_videos([tmp_path / "gone.csv"])


def test_hidden_files_and_folders_named_like_videos_are_none(tmp_path):
    (tmp_path / "folder.mp4").mkdir()
    for name in ("a.mp4", "._a.mp4", ".b.mkv", "raw.h265", "folder.mp4/c.mov"):
        (tmp_path / name).touch()
    expected = ["a.mp4", "folder.mp4/c.mov", "raw.h265"]
    assert find_videos([tmp_path]) == [tmp_path / name for name in expected]


def test_proxies_beside_their_originals_are_no_further_videos_unless_they_are_named(tmp_path):
    for name in ("a.mp4", "proxies/videos/a.mp4", "proxies/.extraction/chunks/0.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    proxy = tmp_path / "proxies" / "videos" / "a.mp4"
    assert find_videos([tmp_path]) == [tmp_path / "a.mp4"]
    assert find_videos([tmp_path / "proxies"]) == [proxy]
    assert find_videos([tmp_path / "proxies" / "videos"]) == [proxy]
