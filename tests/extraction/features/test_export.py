"""Features in other formats, read by what reads them elsewhere."""

import json
import tarfile

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file
from webdataset.autodecode import Decoder
from webdataset.tariterators import group_by_keys, tar_file_expander

from extraction.extracting import contents
from extraction.features.feature_rows import names, row, wide_folder, write_folder
from headrace.atomic_file import partial_of
from headrace.errors import ConfigError
from headrace.extraction.features.export import export, whole_folder, write_webdataset
from headrace.extraction.features.feature_folder import FeatureFolder, whole_video
from sinks.made import disk_full_after

A = list(range(0, 40, 2))


@pytest.fixture
def export_to(folder, tmp_path):
    """Export features to another folder of the test; return what was told."""

    def export_to(out, format="npy", *, folder=folder, **given):
        return export(FeatureFolder(folder), tmp_path / out, format, **given)

    return export_to


@pytest.fixture(params=["float32", "float16"])
def dtype(request):
    return request.param


@pytest.fixture
def wide(tmp_path, dtype):
    """A folder of features of 2 x 3 numbers."""
    return write_folder(tmp_path / "g", shape=(2, 3), dtype=dtype)


with_formats = pytest.mark.parametrize("format", ["npy", "safetensors", "webdataset"])


def check_facts(found):
    expected = {
        **{"video": "a", "path": "/data/a.mp4", "content": "sha256:89ab"},
        **{"size": [360, 640], "time_base": [1, 15360], "lost": [[41, "damaged"]], "errors": []},
        **{"model": "resnet18", "layer": "avgpool", "shape": [2, 3]},
    }
    assert {name: found[name] for name in expected} == expected


def check_lists(found):
    assert found["index"] == A
    assert found["pts"] == [512 * index for index in A]
    np.testing.assert_allclose(found["pts_seconds"], np.array(A) / 30)
    assert found["is_concealed"] == [index % 4 == 0 for index in A]


def check_features(found, dtype):
    assert (found.shape, found.dtype) == ((20, 2, 3), dtype)
    assert found[:, 1, 2].tolist() == A


def test_npy_holds_features_and_json_beside_it_where_they_are_from(
    export_to, wide, tmp_path, dtype
):
    told = export_to("o", folder=wide)
    assert told.files == ("a.json", "a.npy", "b.json", "b.npy")
    assert (told.videos, told.empty, told.partial) == (2, ("c",), ("a", "b"))
    check_features(np.load(tmp_path / "o" / "a.npy", allow_pickle=False), dtype)
    found = json.loads((tmp_path / "o" / "a.json").read_text())
    check_facts(found)
    check_lists(found)


def test_safetensors_hold_all_of_a_video(export_to, wide, tmp_path, dtype):
    told = export_to("o", "safetensors", folder=wide)
    assert told.files == ("a.safetensors", "b.safetensors")
    found = load_file(tmp_path / "o" / "a.safetensors")
    check_features(found.pop("features"), dtype)
    check_lists({name: array.tolist() for name, array in found.items()})
    with safe_open(tmp_path / "o" / "a.safetensors", "numpy") as file:
        check_facts(json.loads(file.metadata()["headrace"]))


def test_webdataset_reads_a_sample_for_each_video(export_to, wide, tmp_path, dtype):
    told = export_to("o", "webdataset", folder=wide)
    assert told.files == ("features-000000.tar",)
    with (tmp_path / "o" / told.files[0]).open("rb") as shard:
        samples = group_by_keys(tar_file_expander([{"url": "shard", "stream": shard}]))
        found = {sample["__key__"]: sample for sample in map(Decoder([]), samples)}
    assert list(found) == ["a", "b"]
    check_features(found["a"]["npy"], dtype)
    check_facts(found["a"]["json"])
    check_lists(found["a"]["json"])


def test_shards_are_ended_when_they_are_large_and_dots_in_names_part_no_sample(tmp_path, write):
    """All behind the first dot is the kind of a file to webdataset."""
    videos, out = ["x.1", "x_1", "y"], tmp_path / "o"
    write(*(row(name, 0, 4, chunk_id=name) for name in videos))
    out.mkdir()
    folder = FeatureFolder(tmp_path)
    whole_videos = (whole_video(folder, name) for name in videos)
    write_webdataset(out, whole_videos, folder.facts, shard_bytes=1500)
    for number, name in enumerate(["x_1", "x_1-2", "y"]):
        with tarfile.open(out / f"features-{number:06d}.tar") as shard:
            assert shard.getnames() == [f"{name}.npy", f"{name}.json"]
    assert len(names(out)) == 3


@with_formats
def test_the_same_features_give_the_same_bytes(export_to, tmp_path, format):
    for out in ("o", "p"):
        export_to(out, format)
    assert contents(tmp_path / "o") == contents(tmp_path / "p") != {}


@with_formats
def test_a_full_disk_is_one_line_and_leaves_nothing(export_to, tmp_path, format):
    wide = wide_folder(tmp_path / "w")
    with disk_full_after(1000), pytest.raises(ConfigError) as told:
        export_to("o", format, folder=wide)
    assert str(told.value) == (
        f"cannot write {tmp_path}/o: file too large; give a folder that can be written to with -o"
    )
    assert names(tmp_path) == ["f", "w"]


@with_formats
def test_what_is_interrupted_leaves_nothing(export_to, tmp_path, format):
    def interrupt(done, of):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_to("o", format, on_video=interrupt)
    assert names(tmp_path) == ["f"]


def test_an_empty_folder_is_filled(export_to, tmp_path):
    (tmp_path / "o").mkdir()
    export_to("o")
    assert len(names(tmp_path / "o")) == 4


def test_what_an_ended_export_left_is_removed_by_the_next(export_to, tmp_path):
    left = partial_of(tmp_path / "o") / "files"
    left.mkdir(parents=True)
    (left / "z.npy").touch()
    assert "z.npy" not in export_to("o").files
    assert names(tmp_path) == ["f", "o"]


def test_two_exports_to_one_folder_are_refused(tmp_path):
    with (
        whole_folder(tmp_path / "o"),
        pytest.raises(ConfigError, match="another process is writing"),
        whole_folder(tmp_path / "o"),
    ):
        pass
