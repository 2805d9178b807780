"""Features by video: all of them, in order, however they lie in tables."""

import sys
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from extraction.features.feature_rows import facts, failed, row, write_folder
from headrace import read_features
from headrace.errors import BackendError, ConfigError
from headrace.extraction.features.folder import FeatureFolder
from headrace.extraction.features.result import Lost
from headrace.extraction.features.table import write_tables


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_features_of_a_video_are_a_tensor_in_order_of_presentation(tmp_path, dtype, shape):
    features = read_features(write_folder(tmp_path, shape=shape, dtype=dtype))
    found = features["a"]
    assert found.features.shape == (20, *shape)
    assert found.features.dtype == getattr(torch, dtype)
    assert found.index.tolist() == list(range(0, 40, 2))
    assert torch.equal(found.features.reshape(20, -1)[:, 0].long(), torch.arange(0, 40, 2))
    assert found.pts.tolist() == [512 * index for index in found.index]
    np.testing.assert_allclose(found.seconds, found.index / 30)
    assert found.is_concealed.tolist() == [index % 4 == 0 for index in found.index]
    assert (found.name, found.path, len(found)) == ("a", "/data/a.mp4", 20)
    assert (found.lost, found.errors) == ((Lost(index=41, cause="damaged"),), ())


def test_videos_are_in_the_order_they_were_asked_for(tmp_path):
    features = read_features(write_folder(tmp_path))
    assert list(features) == ["a", "b", "c"]
    assert len(features) == 3
    assert "b" in features
    assert "d" not in features
    assert features.get("d") is None
    assert features.facts == facts()


def test_a_video_without_features_is_there_and_says_why(tmp_path):
    found = read_features(write_folder(tmp_path, shape=(2, 3)))["c"]
    assert found.features.shape == (0, 2, 3)
    assert len(found.seconds) == 0
    assert found.errors == ("crashed",)


def test_a_video_that_is_not_there_is_a_key_error_with_those_that_are(tmp_path):
    with pytest.raises(KeyError, match="no video is called 'd'; there are a, b, c"):
        read_features(write_folder(tmp_path))["d"]


def test_a_chunk_that_is_done_in_two_tables_counts_once(tmp_path):
    for _ in range(2):
        list(write_tables(tmp_path, [row("a", 0, 8)], facts()))
    assert len(read_features(tmp_path)["a"]) == 4


def test_features_can_be_sent_to_another_process_and_do_not_take_what_was_read_with_them(tmp_path):
    features = read_features(write_folder(tmp_path))
    empty = len(ForkingPickler.dumps(features))
    assert len(features["a"]) == 20
    sent = ForkingPickler.dumps(features)
    assert len(sent) == empty
    assert torch.equal(ForkingPickler.loads(sent)["a"].features, features["a"].features)


def test_groups_that_were_read_are_given_back(tmp_path):
    rows = [row("a", k, k + 2, chunk_id=f"{k:05d}", shape=(1 << 20,)) for k in range(0, 16, 2)]
    list(write_tables(tmp_path, rows, facts(shape=(1 << 20,))))
    with FeatureFolder(tmp_path) as folder:
        assert [each.samples.index.tolist() for each in folder.rows("a")] == [
            [k] for k in range(0, 16, 2)
        ]
        assert 0 < len(folder._held) <= 2


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], r"holds no table of features .*; make them with headrace extract features SOURCE -o"),
        ([".extraction"], r"an extraction was begun there; run the same command again"),
    ],
)
def test_a_folder_without_features_says_how_to_make_them(tmp_path, names, words):
    for name in names:
        (tmp_path / name).mkdir()
    with pytest.raises(ConfigError, match=words):
        read_features(tmp_path)


def test_a_folder_that_is_none_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot read features from .*none: no such file or"):
        read_features(tmp_path / "none")
    with pytest.raises(ConfigError, match=r"cannot read features from .*file: not a directory"):
        read_features(tmp_path / "file")


def test_a_table_that_is_cut_off_is_named_when_the_folder_is_opened(tmp_path):
    last = sorted(write_folder(tmp_path).glob("*.parquet"))[-1]
    last.write_bytes(last.read_bytes()[:-100])
    with pytest.raises(ConfigError, match=r"features-00001.parquet is damaged: .*; delete it and"):
        read_features(tmp_path)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"layer": "layer4"}, "layer layer4, not avgpool"),
        ({"request": "sha256:other"}, "other videos were asked for"),
    ],
)
def test_tables_of_two_extractions_are_refused(tmp_path, given, words):
    list(write_tables(tmp_path, [row("a", 0, 4)], facts()))
    list(write_tables(tmp_path, [row("b", 0, 4)], facts(**given)))
    with pytest.raises(ConfigError) as told:
        read_features(tmp_path)
    assert str(told.value) == (
        f"{tmp_path}/features-00001.parquet is of another extraction than features-00000.parquet: "
        f"{words}; keep tables of one extraction in a folder"
    )


def test_a_table_of_failures_only_may_not_know_the_shape(tmp_path):
    list(write_tables(tmp_path, [failed("a", 0, 4)], facts(shape=())))
    list(write_tables(tmp_path, [row("b", 0, 4)], facts()))
    found = read_features(tmp_path)
    assert found.facts == facts()
    assert found["a"].features.shape == (0, 4)


def test_without_pyarrow_it_says_what_adds_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        BackendError, match=r"pyarrow is not installed; pip install 'headrace\[parq"
    ):
        read_features(tmp_path)


def test_windows_follow_each_other_and_stay_inside_their_video(tmp_path):
    windows = read_features(write_folder(tmp_path)).dataset(4, 3, labels={"a": 0, "/data/b.mp4": 1})
    found = [
        (item["video"], item["label"], item["index"].tolist())
        for item in map(windows.__getitem__, range(len(windows)))
    ]
    assert found == [
        *((0, 0, list(range(2 * k, 2 * k + 8, 2))) for k in range(0, 17, 3)),
        (1, 1, [0, 2, 4, 6]),
    ]
    assert windows.names == ("a", "b", "c")
    first = windows[0]
    assert first["features"].tolist() == [[float(k)] * 4 for k in (0, 2, 4, 6)]
    np.testing.assert_allclose(first["pts_seconds"], np.array([0, 2, 4, 6]) / 30)
    assert windows[-1]["video"] == 1


def test_windows_do_not_overlap_unless_asked(tmp_path):
    windows = read_features(write_folder(tmp_path)).dataset(4)
    assert len(windows) == 5 + 1
    assert "label" not in windows[0]


def test_windows_of_chosen_videos(tmp_path):
    windows = read_features(write_folder(tmp_path)).dataset(videos=["b"], labels={"b": "park"})
    assert (len(windows), windows.names) == (5, ("b",))
    assert {windows[k]["label"] for k in range(5)} == {"park"}


def test_what_is_done_to_an_item_does_not_change_the_next(tmp_path):
    windows = read_features(write_folder(tmp_path)).dataset(2)
    windows[0]["features"].zero_()
    assert windows[0]["features"].tolist() == [[0.0] * 4, [2.0] * 4]


@pytest.mark.parametrize("held_bytes", [0, 1 << 20])
def test_windows_hold_videos_as_far_as_allowed(tmp_path, held_bytes):
    windows = read_features(write_folder(tmp_path)).dataset(held_bytes=held_bytes)
    found = [windows[k]["index"].item() for k in (0, 20, 1, 21)]
    assert found == [0, 0, 2, 2]
    assert len(windows._held) == (2 if held_bytes else 1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"window": 21}, "asked for windows of 21 features, and the longest video in .* has 20"),
        ({"window": 0}, "window must be an integer >= 1"),
        ({"hop": 0}, "hop must be an integer >= 1"),
        ({"labels": {"a": 1, "x": 2}}, "the labels lack b; give one for each name or path"),
        ({"videos": ["a", "y"]}, "has no video y; it has a, b, c"),
        ({"videos": []}, "the longest video in .* has 0"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, given, words):
    with pytest.raises(ConfigError, match=words):
        read_features(write_folder(tmp_path)).dataset(**given)


def test_a_window_that_is_not_there_is_an_index_error(tmp_path):
    windows = read_features(write_folder(tmp_path)).dataset()
    with pytest.raises(IndexError):
        windows[len(windows)]


def test_labels_may_lack_a_video_that_has_no_window(tmp_path):
    windows = read_features(write_folder(tmp_path)).dataset(5, labels={"a": 1, "b": 2})
    assert len(windows) == 5


@pytest.mark.parametrize("workers", [0, 2])
def test_a_head_is_trained_on_windows_by_a_data_loader(tmp_path, workers):
    windows = read_features(write_folder(tmp_path)).dataset(2, labels={"a": 0, "b": 1})
    torch.manual_seed(0)
    loader = DataLoader(windows, batch_size=4, shuffle=True, num_workers=workers)
    head = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(head.parameters(), 1e-3)
    seen = 0
    for batch in loader:
        loss = torch.nn.functional.cross_entropy(head(batch["features"].flatten(1)), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += len(batch["label"])
        assert batch["index"].dtype == torch.int64
    assert seen == len(windows) == 10 + 2
