"""Exported features, read by the libraries of their formats."""

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
    """Return a function that exports features to another folder of the test."""

    def export_to(out, format="npy", *, folder=folder, **options):
        return export(FeatureFolder(folder), tmp_path / out, format, **options)

    return export_to


with_formats = pytest.mark.parametrize("format", ["npy", "safetensors", "webdataset"])


def npy(out):
    return np.load(out / "a.npy", allow_pickle=False), json.loads((out / "a.json").read_text())


def safetensors(out):
    tensors = load_file(out / "a.safetensors")
    features = tensors.pop("features")
    lists = {name: tensor.tolist() for name, tensor in tensors.items()}
    with safe_open(out / "a.safetensors", "numpy") as file:
        return features, lists | json.loads(file.metadata()["headrace"])


def webdataset(out):
    with (out / "features-000000.tar").open("rb") as shard:
        samples = group_by_keys(tar_file_expander([{"url": "shard", "stream": shard}]))
        by_key = {sample["__key__"]: sample for sample in map(Decoder([]), samples)}
    assert list(by_key) == ["a", "b"]
    return by_key["a"]["npy"], by_key["a"]["json"]


FILES = {
    npy: ("a.json", "a.npy", "b.json", "b.npy"),
    safetensors: ("a.safetensors", "b.safetensors"),
    webdataset: ("features-000000.tar",),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("read", FILES, ids=lambda read: read.__name__)
def test_each_format_holds_features_and_their_origin(export_to, tmp_path, dtype, read):
    wide = write_folder(tmp_path / "g", shape=(2, 3), dtype=dtype)
    result = export_to("o", read.__name__, folder=wide)
    assert result.files == FILES[read]
    assert (result.videos, result.empty, result.partial) == (2, ("c",), ("a", "b"))
    features, sidecar = read(tmp_path / "o")
    assert (features.shape, features.dtype) == ((20, 2, 3), dtype)
    assert features[:, 1, 2].tolist() == A
    expected = {
        **{"video": "a", "path": "/data/a.mp4", "content": "sha256:89ab"},
        **{"size": [360, 640], "time_base": [1, 15360], "lost": [[41, "damaged"]], "errors": []},
        **{"model": "resnet18", "layer": "avgpool", "shape": [2, 3], "index": A},
        **{"pts": [512 * n for n in A], "is_concealed": [n % 4 == 0 for n in A]},
    }
    assert {name: sidecar[name] for name in expected} == expected
    np.testing.assert_allclose(sidecar["pts_seconds"], np.array(A) / 30)


def test_large_shards_are_finished_and_dots_in_names_do_not_split_samples(tmp_path, write):
    """webdataset takes everything after the first dot as the file type."""
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
def test_an_export_is_deterministic(export_to, tmp_path, format):
    for out in ("o", "p"):
        export_to(out, format)
    assert contents(tmp_path / "o") == contents(tmp_path / "p") != {}


@with_formats
def test_a_full_disk_is_an_error_and_leaves_no_file(export_to, tmp_path, format):
    wide = wide_folder(tmp_path / "w")
    with disk_full_after(1000), pytest.raises(ConfigError) as caught:
        export_to("o", format, folder=wide)
    assert str(caught.value) == (
        f"cannot write {tmp_path}/o: file too large; give a writable folder with -o"
    )
    assert names(tmp_path) == ["f", "w"]


@with_formats
def test_an_interrupted_export_leaves_no_file(export_to, tmp_path, format):
    def interrupt(done, of):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_to("o", format, on_video=interrupt)
    assert names(tmp_path) == ["f"]


def test_an_empty_folder_can_be_the_output(export_to, tmp_path):
    (tmp_path / "o").mkdir()
    export_to("o")
    assert len(names(tmp_path / "o")) == 4


def test_leftovers_of_a_killed_export_are_removed_by_the_next(export_to, tmp_path):
    partial = partial_of(tmp_path / "o") / "files"
    partial.mkdir(parents=True)
    (partial / "z.npy").touch()
    assert "z.npy" not in export_to("o").files
    assert names(tmp_path) == ["f", "o"]


def test_two_exports_to_one_folder_are_refused(tmp_path):
    with (
        whole_folder(tmp_path / "o"),
        pytest.raises(ConfigError, match="another process is writing"),
        whole_folder(tmp_path / "o"),
    ):
        pass
