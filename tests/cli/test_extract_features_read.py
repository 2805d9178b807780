"""`headrace extract aggregate` and `headrace extract export`."""

import numpy as np
import pyarrow.parquet
import pytest

from cli.kit import transcript
from extraction.features.feature_rows import facts, row, write_folder
from headrace.extraction.extraction_options import OutputSpec, RequestedVideo
from headrace.extraction.features.table_store import write_tables

NAMES = ("street", "park")


@pytest.fixture(autouse=True)
def whole(tmp_path, monkeypatch):
    """Folder with the complete features of two videos."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "features"
    folder.mkdir()
    list(write_tables(folder, [row(name, 0, 8, chunk_id=name, lost=()) for name in NAMES], facts()))
    return folder


def test_results_and_missing_features_are_printed_with_exit_code_3(holds, call, tmp_path):
    write_folder(tmp_path / "parts")
    (tmp_path / "labels.csv").write_text("video,label\na.mp4,cars\nz,dogs\n")
    lines = (
        "extract aggregate features -o videos.parquet",
        "extract aggregate features --by max -o most.parquet --json",
        "extract aggregate parts -o parts.parquet --join labels.csv",
        "extract export parts --format npy -o parts.npy",
    )
    holds("features_read.txt", transcript(call, *lines))
    means = pyarrow.parquet.read_table("videos.parquet").column("features").to_pylist()
    assert means == [[3.0] * 4] * 2


@pytest.mark.parametrize("format", ["npy", "safetensors", "webdataset"])
def test_export_writes_the_files_that_it_lists(as_json, tmp_path, format):
    out = tmp_path / "out"
    result = as_json("extract", "export", "features", "--format", format, "-o", out)
    assert (result["videos"], result["files"]) == (2, sorted(path.name for path in out.iterdir()))
    if format == "npy":
        assert np.load(out / "street.npy")[:, 0].tolist() == [0.0, 2.0, 4.0, 6.0]


def test_an_incomplete_extraction_is_reported_with_exit_code_3(holds, call, whole):
    (whole / ".extraction").mkdir()
    videos = [
        RequestedVideo(name=name, path=f"/data/{name}.mp4", size=1, mtime_ns=1)
        for name in reversed(NAMES)
    ]
    request = OutputSpec(kind="features", asked={}, videos=tuple(videos))
    (whole / ".extraction" / "request.json").write_text(request.text())
    commands = ("aggregate features", "export features --format npy")
    said = transcript(call, *(f"extract {words} -o {words.split()[0]}" for words in commands))
    holds("features_not_ended.txt", said)
