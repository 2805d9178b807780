"""`headrace extract aggregate` and `export` as a user meets them."""

import json

import numpy as np
import pyarrow.parquet
import pytest

from extraction.features.feature_rows import facts, row, write_folder
from headrace.extraction.features.table import write_tables
from headrace.extraction.request import AskedVideo, Request


@pytest.fixture
def whole(tmp_path):
    """Features of two videos, of which nothing is missing."""
    rows = [row(name, 0, 8, chunk_id=name, lost=()) for name in ("street", "park")]
    folder = tmp_path / "features"
    folder.mkdir()
    list(write_tables(folder, rows, facts()))
    return folder


def test_aggregate_says_what_it_wrote(call, tmp_path, whole):
    out = tmp_path / "videos.parquet"
    said = f"2 videos pooled by mean: {out}\n"
    assert call("extract", "aggregate", whole, "-o", out) == (0, said, "")
    assert pyarrow.parquet.read_table(out).column("features").to_pylist() == [[3.0] * 4] * 2
    more = ("--by", "max", "-o", tmp_path / "most.parquet", "--json")
    code, said, err = call("extract", "aggregate", whole, *more)
    assert (code, err) == (0, "")
    assert json.loads(said) == {"videos": 2, "empty": [], "partial": [], "unjoined": []}


def test_what_is_missing_is_named_with_exit_code_3(call, tmp_path):
    folder = write_folder(tmp_path / "f")
    labels, out = tmp_path / "labels.csv", tmp_path / "videos.parquet"
    labels.write_text("video,label\na,cars\n")
    assert call("extract", "aggregate", folder, "-o", out, "--join", labels) == (
        3,
        f"3 videos pooled by mean: {out}\n",
        "headrace: 1 video without a feature; the row has none: c\n"
        "headrace: 2 videos pooled over what there is: samples were lost: a, b\n"
        f"headrace: 2 videos not in {labels}: b, c\n",
    )
    assert call("extract", "export", folder, "--format", "npy", "-o", tmp_path / "npy") == (
        3,
        f"2 videos in 4 files as npy: {tmp_path / 'npy'}\n",
        "headrace: 1 video without a feature, left out: c\n"
        "headrace: 2 videos of which samples were lost: a, b\n",
    )


@pytest.mark.parametrize("format", ["npy", "safetensors", "webdataset"])
def test_export_says_what_it_wrote(call, tmp_path, whole, format):
    out = tmp_path / "out"
    code, said, err = call("extract", "export", whole, "--format", format, "-o", out, "--json")
    assert (code, err) == (0, "")
    told = json.loads(said)
    assert (told["videos"], told["files"]) == (2, sorted(path.name for path in out.iterdir()))
    if format == "npy":
        assert np.load(out / "street.npy")[:, 0].tolist() == [0.0, 2.0, 4.0, 6.0]


@pytest.mark.parametrize("command", [("aggregate",), ("export", "--format", "npy")])
def test_an_extraction_that_has_not_ended_is_said_with_exit_code_3(call, tmp_path, whole, command):
    (whole / ".extraction").mkdir()
    videos = tuple(
        AskedVideo(name=name, path=f"/data/{name}.mp4", size=1, mtime_ns=1)
        for name in ("park", "street")
    )
    request = Request(kind="features", asked={}, videos=videos)
    (whole / ".extraction" / "request.json").write_text(request.text())
    code, _, err = call("extract", *command, whole, "-o", tmp_path / "out")
    assert (code, err) == (
        3,
        f"headrace: the extraction into {whole} has not ended, or a table is gone; this is of "
        "what is there. Run the same command again to go on with it\n",
    )
