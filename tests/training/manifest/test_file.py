"""Manifests are read from CSV, JSON lines and Parquet alike."""

import json
import sys

import pyarrow
import pyarrow.parquet
import pytest

from headrace import Manifest
from headrace.errors import BackendError, ConfigError

ROWS = [
    {"path": "a.mp4", "label": "cats", "start_seconds": 1.5, "note": 'says "hello", twice'},
    {"path": "sub/b.mp4", "label": "dogs", "start_seconds": None, "note": "two\nlines"},
]
CSV = (
    "path, label,start_seconds,note\r\n"
    'a.mp4,cats,1.5,"says ""hello"", twice"\r\n'
    'sub/b.mp4,dogs,,"two\nlines"\r\n'
)


def written(folder, kind):
    path = folder / f"rows.{kind}"
    if kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    elif kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, ROWS)) + "\n\n")
    else:
        path.write_bytes(b"\xef\xbb\xbf" + CSV.encode())
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_file_of_any_kind_says_the_same(tmp_path, kind):
    manifest = Manifest.read(written(tmp_path, kind))
    assert manifest.videos == (tmp_path / "a.mp4", tmp_path / "sub" / "b.mp4")
    assert manifest.segments == ((1.5, None), (0, None))
    assert manifest.columns["note"].tolist() == [row["note"] for row in ROWS]
    assert manifest.classes == {"label": ("cats", "dogs")}


def test_tabs_may_stand_for_commas(tmp_path):
    (tmp_path / "rows.tsv").write_text("path\tnote\na.mp4\tone, two\n")
    assert Manifest.read(tmp_path / "rows.tsv").columns["note"].tolist() == ["one, two"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.txt", "a.mp4 long jump\nb.mp4 run\n"),
        ("rows.csv", "a.mp4 long jump\nb.mp4 run\n"),
        ("rows.csv", "a.mp4,long jump\nb.mp4,run\n"),
        ("rows.csv", "Path,LABEL\na.mp4,long jump\nb.mp4,run\n"),
    ],
)
def test_labels_may_stand_behind_paths_without_a_line_of_names(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    manifest = Manifest.read(tmp_path / name)
    assert manifest.videos == (tmp_path / "a.mp4", tmp_path / "b.mp4")
    assert manifest.classes == {"label": ("long jump", "run")}


def test_a_part_knows_the_lines_of_the_file(tmp_path):
    (tmp_path / "rows.csv").write_text('path,note\na.mp4,"two\nlines"\n\nb.mp4,one\n')
    manifest = Manifest.read(tmp_path / "rows.csv")
    assert manifest.subset([1]).places.where(0) == f"line 5 of {tmp_path / 'rows.csv'}"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xlsx", b"a.mp4", r"ends in \.csv, \.tsv, \.txt, \.jsonl, \.parquet, got"),
        ("a.csv", b"", "holds no row"),
        ("a.csv", b"path,label\n", "holds no row"),
        ("a.csv", b"path,label\na.mp4,cats,dogs\n", r"line 2 of .* more values .* comma in quotes"),
        ("a.csv", b"path,note,note\na.mp4,1,2\n", "two columns 'note'"),
        ("a.csv", b"name\na.mp4\n", "one column of paths"),
        ("a.csv", b"path,label\n\na.mp4,\n", r"line 3 of .*a\.csv has no label"),
        ("a.csv", b"path,weight\na.mp4,-1\n", r"weight of line 2 of .*a\.csv is -1; it must"),
        ("a.csv", b"a.mp4,cats,soon\n", "start_seconds of line 1 of .* finite number"),
        ("a.jsonl", b'\n{"label": "cats"}\n{"path": "a.mp4"}\n', "line 2 of .* names no video"),
        ("a.csv", b"path\n\xff\xfe\n", "no text in UTF-8"),
        ("a.csv", b"path\na\0.mp4\n", "holds a character 0"),
        ("a.csv", b'path,note\na.mp4,"' + b"x" * 200_000 + b'"\n', "line 2 of .* is no CSV"),
        ("a.jsonl", b'{"path": "a.mp4"}\n{"path":\n', "line 2 of .* is no JSON"),
        ("a.jsonl", b'["a.mp4"]\n', "line 1 of .* is no JSON object, such as"),
        ("a.jsonl", b"[" * 100_000, "line 1 of .* is no JSON"),
        ("a.parquet", b"PAR1 nothing PAR1", "is no Parquet file"),
    ],
    ids=str,
)
def test_what_is_no_manifest_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        Manifest.read(tmp_path / name)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read the manifest .*gone\.csv: no such file"):
        Manifest.read(tmp_path / "gone.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ConfigError, match="cannot read the manifest"):
        Manifest.read(tmp_path / "folder.csv")


def test_parquet_needs_its_extra(tmp_path, monkeypatch):
    path = written(tmp_path, "parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        BackendError, match=r"pip install 'headrace\[parquet\]', or write it as CSV"
    ):
        Manifest.read(path)
