"""Manifests are read from CSV, JSON lines and Parquet alike."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from headrace import Manifest

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


def test_what_is_no_manifest_is_refused(tmp_path, refused):
    def read(name, content=None):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        Manifest.read(tmp_path / name)

    (tmp_path / "folder.csv").mkdir()
    refused("manifest_files", read=read)
