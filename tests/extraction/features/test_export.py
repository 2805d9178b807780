"""Features in other formats, read by what reads them elsewhere."""

import json
import sys
import tarfile

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file
from webdataset.autodecode import Decoder
from webdataset.tariterators import group_by_keys, tar_file_expander

from extraction.features.feature_rows import (
    facts,
    failed,
    files_of_at_most,
    row,
    wide_folder,
    write_folder,
)
from headrace.errors import BackendError, ConfigError
from headrace.extraction.features.export import export
from headrace.extraction.features.export_webdataset import WebDatasetShards
from headrace.extraction.features.folder import FeatureFolder
from headrace.extraction.features.table import write_tables
from headrace.extraction.features.whole_folder import whole_folder
from headrace.extraction.features.whole_video import whole_video
from headrace.text_file import partial_of

FORMATS = ["npy", "safetensors", "webdataset"]
A = list(range(0, 40, 2))


def write(folder, out, format, **given):
    with FeatureFolder(folder) as opened:
        return export(opened, out, format, **given)


def check_facts(found):
    assert {name: found[name] for name in ("video", "path", "content", "size", "time_base")} == {
        "video": "a",
        "path": "/data/a.mp4",
        "content": "sha256:89ab",
        "size": [360, 640],
        "time_base": [1, 15360],
    }
    assert (found["lost"], found["errors"]) == ([[41, "damaged"]], [])
    assert (found["model"], found["layer"], found["shape"]) == ("resnet18", "avgpool", [2, 3])


def check_lists(found):
    assert found["index"] == A
    assert found["pts"] == [512 * index for index in A]
    np.testing.assert_allclose(found["pts_seconds"], np.array(A) / 30)
    assert found["is_concealed"] == [index % 4 == 0 for index in A]


def check_features(found, dtype):
    assert found.shape == (20, 2, 3)
    assert found.dtype == dtype
    assert found[:, 1, 2].tolist() == A


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_npy_holds_features_and_json_beside_it_where_they_are_from(tmp_path, dtype):
    folder = write_folder(tmp_path / "f", shape=(2, 3), dtype=dtype)
    told = write(folder, tmp_path / "o", "npy")
    assert told.files == ("a.json", "a.npy", "b.json", "b.npy")
    assert (told.videos, told.empty, told.partial) == (2, ("c",), ("a", "b"))
    check_features(np.load(tmp_path / "o" / "a.npy", allow_pickle=False), dtype)
    found = json.loads((tmp_path / "o" / "a.json").read_text())
    check_facts(found)
    check_lists(found)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_safetensors_hold_all_of_a_video(tmp_path, dtype):
    folder = write_folder(tmp_path / "f", shape=(2, 3), dtype=dtype)
    told = write(folder, tmp_path / "o", "safetensors")
    assert told.files == ("a.safetensors", "b.safetensors")
    found = load_file(tmp_path / "o" / "a.safetensors")
    check_features(found.pop("features"), dtype)
    check_lists({name: array.tolist() for name, array in found.items()})
    with safe_open(tmp_path / "o" / "a.safetensors", "numpy") as file:
        check_facts(json.loads(file.metadata()["headrace"]))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_webdataset_reads_a_sample_for_each_video(tmp_path, dtype):
    folder = write_folder(tmp_path / "f", shape=(2, 3), dtype=dtype)
    told = write(folder, tmp_path / "o", "webdataset")
    assert told.files == ("features-000000.tar",)
    with (tmp_path / "o" / told.files[0]).open("rb") as shard:
        samples = group_by_keys(tar_file_expander([{"url": "shard", "stream": shard}]))
        found = {sample["__key__"]: sample for sample in map(Decoder([]), samples)}
    assert list(found) == ["a", "b"]
    check_features(found["a"]["npy"], dtype)
    check_facts(found["a"]["json"])
    check_lists(found["a"]["json"])


def test_shards_are_ended_when_they_are_large_and_dots_in_names_part_no_sample(tmp_path):
    """All behind the first dot is the kind of a file to webdataset."""
    names = ["x.1", "x_1", "y"]
    list(write_tables(tmp_path, [row(name, 0, 4, chunk_id=name) for name in names], facts()))
    folder = FeatureFolder(tmp_path)
    out = tmp_path / "o"
    out.mkdir()
    shards = WebDatasetShards(out, folder.facts, shard_bytes=1500)
    for name in names:
        shards.write(whole_video(folder, name))
    shards.close()
    found = {}
    for path in sorted(out.iterdir()):
        with tarfile.open(path) as shard:
            found[path.name] = shard.getnames()
    assert found == {
        "features-000000.tar": ["x_1.npy", "x_1.json"],
        "features-000001.tar": ["x_1-2.npy", "x_1-2.json"],
        "features-000002.tar": ["y.npy", "y.json"],
    }


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_features_give_the_same_bytes(tmp_path, format):
    folder = write_folder(tmp_path / "f")
    for out in ("o", "p"):
        write(folder, tmp_path / out, format)
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / out).iterdir()} for out in ("o", "p")
    )
    assert first == second


@pytest.mark.parametrize("format", FORMATS)
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, format):
    folder = wide_folder(tmp_path / "f")
    with files_of_at_most(1000), pytest.raises(ConfigError) as told:
        write(folder, tmp_path / "o", format)
    assert str(told.value) == (
        f"cannot write {tmp_path}/o: file too large; give a folder that can be written to with -o"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_interrupted_leaves_nothing(tmp_path, format):
    def interrupt(done, of):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(write_folder(tmp_path / "f"), tmp_path / "o", format, on_video=interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_an_empty_folder_is_filled_and_what_holds_something_is_not_touched(tmp_path):
    folder = write_folder(tmp_path / "f")
    (tmp_path / "o").mkdir()
    write(folder, tmp_path / "o", "npy")
    with pytest.raises(ConfigError, match="holds something; give a new or an empty folder"):
        write(folder, tmp_path / "o", "npy")
    assert len(list((tmp_path / "o").iterdir())) == 4
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match=r"cannot write .*file: not a directory"):
        write(folder, tmp_path / "file", "npy")
    with pytest.raises(ConfigError, match=r"cannot write .*: no such file or directory"):
        write(folder, tmp_path / "none" / "o", "npy")


def test_what_an_ended_export_left_is_removed_by_the_next(tmp_path):
    left = partial_of(tmp_path / "o") / "files"
    left.mkdir(parents=True)
    (left / "z.npy").touch()
    assert "z.npy" not in write(write_folder(tmp_path / "f"), tmp_path / "o", "npy").files
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "o"]


def test_two_exports_to_one_folder_are_refused(tmp_path):
    with (
        whole_folder(tmp_path / "o"),
        pytest.raises(ConfigError, match="another process is writing"),
        whole_folder(tmp_path / "o"),
    ):
        pass


@pytest.mark.parametrize("name", ["../a", "/a", "a\0b"])
def test_a_video_is_never_written_elsewhere(tmp_path, name):
    list(write_tables(tmp_path, [row(name, 0, 4)], facts()))
    with pytest.raises(ConfigError, match="is no name of a file; was it made by headrace"):
        write(tmp_path, tmp_path / "o", "npy")


def test_features_of_nothing_are_not_exported(tmp_path):
    list(write_tables(tmp_path, [failed("a", 0, 4)], facts()))
    with pytest.raises(ConfigError, match="has a feature; there is nothing to export"):
        write(tmp_path, tmp_path / "o", "npy")


def test_without_safetensors_it_says_what_adds_them(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(BackendError, match=r"pip install 'headrace\[safetensors\]', or export npy"):
        write(write_folder(tmp_path / "f"), tmp_path / "o", "safetensors")
    assert not (tmp_path / "o").exists()


def test_an_unknown_format_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="as npy, safetensors, webdataset, got 'zarr'"):
        write(write_folder(tmp_path / "f"), tmp_path / "o", "zarr")
