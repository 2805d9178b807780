"""Sources of videos: paths, folders, lists and tables."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import ConfigError, OpenError, Source, find_videos, open_index
from headrace.bench.benchmark import make_folder
from headrace.extraction.journal import Journal
from headrace.runs.output_folder import prepare_folder
from headrace.video.find_videos import read_table
from headrace.video.source import is_inside


def test_a_source_is_created_from_a_path_a_string_or_a_source(tmp_path):
    source = Source.of(str(tmp_path / "a.mp4"))
    assert source == Source(tmp_path / "a.mp4") == Source.of(source)
    assert str(source) == str(tmp_path / "a.mp4")
    assert Source(str(tmp_path / "a.mp4"), 0) == Source(tmp_path / "a.mp4", stream=0)


@pytest.mark.parametrize(
    "name", ["a:b.mp4", "C:/a.mp4", "x/https://a.mp4", "://a.mp4", "1:/a.mp4", "take2:/a.mp4"]
)
def test_a_path_may_look_like_a_url(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("take2:").mkdir()
    assert Source.of(name).path == Path(name)


def test_a_path_with_a_null_byte_is_a_bad_video():
    with pytest.raises(OpenError, match="embedded null"):
        open_index("a\0b.mp4")


def test_relative_names_stay_in_their_folder():
    names = ("a.mp4", "a/b..c", "../a", "a/../../b", "/a", "a\0")
    assert [name for name in names if is_inside(name)] == ["a.mp4", "a/b..c"]


def checked_journal(folder):
    Journal(folder).check(None)


@pytest.mark.parametrize("claim_folder", [prepare_folder, make_folder, checked_journal])
@pytest.mark.parametrize("out", ["s3://bucket/out", "s3:/bucket/out"])
def test_urls_are_refused_as_output(claim_folder, out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="s3://bucket is an address, and nothing is written"):
        claim_folder(Path(out))
    assert not list(tmp_path.iterdir())


def touch(folder, *names):
    for path in (folder / name for name in names):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_files_stay_and_folders_list_their_videos_sorted(tmp_path):
    touch(tmp_path / "folder", "b.MP4", "a.mov", "notes.txt", "deep/c.mkv")
    found = find_videos([tmp_path / "no-suffix", tmp_path / "folder"])
    names = [str(path.relative_to(tmp_path)) for path in found]
    assert names == ["no-suffix", "folder/a.mov", "folder/b.MP4", "folder/deep/c.mkv"]


def test_ten_thousand_links_are_found(tmp_path):
    touch(tmp_path, "a.mp4")
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
def test_paths_in_a_list_are_relative_to_it(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = find_videos([tmp_path / name])
    assert found == [tmp_path / "a.mp4", tmp_path / "deep/b.mp4", Path("/elsewhere/c.mp4")]


def test_a_path_may_have_spaces_with_and_without_a_label(tmp_path):
    (tmp_path / "list.txt").write_text("my video.mp4\nmy video.mp4 3\na.mp4 b.mp4\nno suffix\n")
    names = [str(each.relative_to(tmp_path)) for each in find_videos([tmp_path / "list.txt"])]
    assert names == ["my video.mp4", "my video.mp4", "a.mp4 b.mp4", "no suffix"]


def test_hidden_files_and_folders_with_video_suffixes_are_skipped(tmp_path):
    touch(tmp_path, "a.mp4", "._a.mp4", ".b.mkv", "raw.h265", "folder.mp4/c.mov")
    expected = ["a.mp4", "folder.mp4/c.mov", "raw.h265"]
    assert find_videos([tmp_path]) == [tmp_path / name for name in expected]


def test_proxies_next_to_originals_are_skipped_unless_given(tmp_path):
    touch(tmp_path, "a.mp4", "proxies/videos/a.mp4", "proxies/.extraction/chunks/0.json")
    proxy = tmp_path / "proxies" / "videos" / "a.mp4"
    assert find_videos([tmp_path]) == [tmp_path / "a.mp4"]
    assert find_videos([tmp_path / "proxies"]) == [proxy]
    assert find_videos([tmp_path / "proxies" / "videos"]) == [proxy]


def read(folder, name, content):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(folder / name, "table")


NAMELESS = ("path", "label", "start_seconds", "end_seconds", "column 4")
"""Names of columns without a header, in order."""


@pytest.mark.parametrize(
    ("name", "text", "heads", "rows"),
    [
        ("a.csv", "path,label\nx.mp4,cat\n", ("path", "label"), [(2, "x.mp4", "cat")]),
        ("a.csv", "\ufeff Path , Label\r\n\r\nx.mp4, c", ("path", "label"), [(3, "x.mp4", "c")]),
        ("a.csv", '\n"x.mp4","c, t"\n', ("path", "label"), [(2, "x.mp4", "c, t")]),
        ("a.csv", "x.mp4\ny.mp4\n", ("path",), [(1, "x.mp4"), (2, "y.mp4")]),
        ("a.csv", "x.mp4 c\ny.mp4\n", ("path", "label"), [(1, "x.mp4", "c"), (2, "y.mp4")]),
        ("a.csv", "path,label\nx.mp4\n,\n", ("path", "label"), [(2, "x.mp4", None)]),
        ("a.csv", 'path,a\n"x\n",1\ny,3', ("path", "a"), [(2, "x\n", "1"), (4, "y", "3")]),
        ("a.csv", "path,a\rx.mp4,1\r", ("path", "a"), [(2, "x.mp4", "1")]),
        ("a.txt", "x y.mp4\n", ("path",), [(1, "x y.mp4")]),
        ("a.txt", "x, y.mp4\n", ("path",), [(1, "x, y.mp4")]),
        ("a.txt", "x y.mp4 \t c d\n", ("path", "label"), [(1, "x y.mp4", "c d")]),
        ("a.txt", "frames\nmore frames\n", ("path",), [(1, "frames"), (2, "more frames")]),
        (
            "a.txt",
            "# of\n x.mp4 c\n #y.mp4\nz#.mp4\n",
            ("path", "label"),
            [(2, "x.mp4", "c"), (4, "z#.mp4")],
        ),
        ("a.txt", "# of\nlabel,path\nc,x.mp4\n", ("label", "path"), [(3, "c", "x.mp4")]),
        ("a.txt", "x.mp4,c d\n", ("path", "label"), [(1, "x.mp4", "c d")]),
        ("a.txt", "label,path\nc,x.mp4\n", ("label", "path"), [(2, "c", "x.mp4")]),
        ("a.tsv", "x.mp4\tc, d\n", ("path", "label"), [(1, "x.mp4", "c, d")]),
        ("a.jsonl", '"x"\r\n{"Path": "y\u2028z"}', ("path",), [(1, "x"), (2, "y\u2028z")]),
        ("labels", "path,label\nx.mp4,cat\n", ("path", "label"), [(2, "x.mp4", "cat")]),
        ("a.csv", "x.mp4,cat,1,2.5,mine\n", NAMELESS, [(1, "x.mp4", "cat", "1", "2.5", "mine")]),
        ("a.csv", "", (), []),
        ("a.csv", "path,label\n", ("path", "label"), []),
    ],
)
def test_rows_and_their_lines(tmp_path, name, text, heads, rows):
    table = read(tmp_path, name, text)
    assert table.heads == heads
    found = [(line, *row.values()) for line, row in zip(table.lines, table.rows, strict=True)]
    assert found == rows


def test_a_file_of_any_size_takes_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.video.find_videos._MAX_BYTES", 10)
    with pytest.raises(ConfigError, match="is larger than 0 MiB; is it a table"):
        read(tmp_path, "a.csv", "path\nx.mp4\n")
    with pytest.raises(ConfigError, match=r"cannot read the table .*: is a directory; give a file"):
        read_table(tmp_path, "table")


@given(name=st.sampled_from(["a.csv", "a.tsv", "a.txt", "a.jsonl"]), text=st.text(max_size=60))
def test_any_text_is_parsed_or_refused(tmp_path_factory, name, text):
    try:
        table = read(tmp_path_factory.getbasetemp(), name, text.encode("utf-8", "surrogatepass"))
    except ConfigError:
        return
    assert len(table.rows) == len(table.lines)
    assert list(table.lines) == sorted(set(table.lines))
