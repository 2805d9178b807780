"""Tables of videos: one set of rules, whoever reads them, and each mistake by its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.video.table import read_table


def read(folder, name, content):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(folder / name, "table")


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
        ("a.txt", "x.mp4,c d\n", ("path", "label"), [(1, "x.mp4", "c d")]),
        ("a.txt", "label,path\nc,x.mp4\n", ("label", "path"), [(2, "c", "x.mp4")]),
        ("a.tsv", "x.mp4\tc, d\n", ("path", "label"), [(1, "x.mp4", "c, d")]),
        ("a.jsonl", '"x"\r\n{"Path": "y\u2028z"}', ("path",), [(1, "x"), (2, "y\u2028z")]),
        ("labels", "path,label\nx.mp4,cat\n", ("path", "label"), [(2, "x.mp4", "cat")]),
        ("a.csv", "", (), []),
        ("a.csv", "path,label\n", ("path", "label"), []),
    ],
)
def test_rows_and_their_lines(tmp_path, name, text, heads, rows):
    table = read(tmp_path, name, text)
    assert table.heads == heads
    found = [(line, *row.values()) for line, row in zip(table.lines, table.rows, strict=True)]
    assert found == rows


def test_columns_without_names_mean_what_stands_first(tmp_path):
    table = read(tmp_path, "a.csv", "x.mp4,cat,1,2.5,mine\n")
    assert table.heads == ("path", "label", "start_seconds", "end_seconds", "column 4")


def test_a_file_of_any_size_takes_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.video.table._LARGEST_BYTES", 10)
    with pytest.raises(ConfigError, match="is larger than 0 MiB; is it a table"):
        read(tmp_path, "a.csv", "path\nx.mp4\n")
    with pytest.raises(ConfigError, match=r"cannot read the table .*: is a directory; give a file"):
        read_table(tmp_path, "table")


@given(name=st.sampled_from(["a.csv", "a.tsv", "a.txt", "a.jsonl"]), text=st.text(max_size=60))
def test_any_text_gives_rows_or_one_error(tmp_path_factory, name, text):
    folder = tmp_path_factory.mktemp("any")
    try:
        table = read(folder, name, text.encode("utf-8", "surrogatepass"))
    except ConfigError:
        return
    assert len(table.rows) == len(table.lines)
    assert list(table.lines) == sorted(set(table.lines))
