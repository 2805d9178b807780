"""Reading of features by video, in order, with failures, and windows for training."""

import json
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from extraction.features.feature_rows import facts, failed, row, write_folder
from headrace import read_features
from headrace.errors import ConfigError
from headrace.extraction.extraction_options import OutputSpec, RequestedVideo
from headrace.extraction.features.feature_folder import FeatureFolder
from headrace.extraction.features.feature_result import Lost
from headrace.extraction.features.table_store import write_tables


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)])
def test_features_of_a_video_are_a_tensor_in_presentation_order(tmp_path, dtype, shape):
    features = read_features(write_folder(tmp_path, shape=shape, dtype=dtype))
    video, empty = features["a"], features["c"]
    index = torch.arange(0, 40, 2)
    assert (video.features.shape, video.features.dtype) == ((20, *shape), getattr(torch, dtype))
    assert torch.equal(video.features.reshape(20, -1)[:, 0].long(), index)
    assert video.index.tolist() == index.tolist()
    assert video.pts.tolist() == [512 * k for k in video.index]
    np.testing.assert_allclose(video.seconds, video.index / 30)
    assert video.is_concealed.tolist() == [k % 4 == 0 for k in video.index]
    assert (video.name, video.path, len(video)) == ("a", "/data/a.mp4", 20)
    assert (video.lost, video.errors) == ((Lost(index=41, cause="damaged"),), ())
    # A video without features has its errors.
    assert (empty.features.shape, len(empty.seconds)) == ((0, *shape), 0)
    assert empty.errors == ("crashed",)


def test_videos_are_in_the_order_of_the_request(features):
    assert (list(features), len(features)) == (["a", "b", "c"], 3)
    assert ("b" in features, "d" in features, features.get("d")) == (True, False, None)
    assert features.facts == facts()
    with pytest.raises(KeyError, match="no video is called 'd'; there are a, b, c"):
        features["d"]


def test_a_chunk_in_two_tables_is_read_once(tmp_path, write):
    for _ in range(2):
        write(row("a", 0, 8))
    assert len(read_features(tmp_path)["a"]) == 4


def test_pickled_features_hold_no_rows(features):
    unread_size = len(ForkingPickler.dumps(features))
    assert len(features["a"]) == 20
    pickled = ForkingPickler.dumps(features)
    assert len(pickled) == unread_size
    assert torch.equal(ForkingPickler.loads(pickled)["a"].features, features["a"].features)


def test_few_row_groups_stay_in_memory(tmp_path, write):
    starts, shape = range(0, 16, 2), (1 << 20,)
    write(*(row("a", k, k + 2, chunk_id=f"{k:05d}", shape=shape) for k in starts), shape=shape)
    folder = FeatureFolder(tmp_path)
    assert [row.samples.index.tolist() for row in folder.rows("a")] == [[k] for k in starts]
    assert 0 < len(folder._held) <= 2


def test_a_truncated_table_is_an_error_when_the_folder_is_opened(folder):
    last = sorted(folder.glob("*.parquet"))[-1]
    last.write_bytes(last.read_bytes()[:-100])
    with pytest.raises(ConfigError, match=r"features-00001.parquet is damaged: .*; delete it and"):
        read_features(folder)


@pytest.mark.parametrize(
    ("fields", "difference"),
    [
        ({"layer": "layer4"}, "layer layer4, not avgpool"),
        ({"request": "sha256:other"}, "other videos"),
    ],
)
def test_tables_of_two_extractions_are_refused(tmp_path, write, fields, difference):
    write(row("a", 0, 4))
    write(row("b", 0, 4), **fields)
    with pytest.raises(ConfigError) as caught:
        read_features(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}/features-00001.parquet is from another extraction than "
        f"features-00000.parquet: {difference}; keep tables of one extraction in a folder"
    )


def test_a_table_of_failures_may_have_another_shape(tmp_path, write):
    write(failed("a", 0, 4), shape=())
    write(row("b", 0, 4))
    features = read_features(tmp_path)
    assert features.facts == facts()
    assert features["a"].features.shape == (0, 4)


def test_windows_are_consecutive_within_each_video(features):
    windows = features.dataset(4, 3, labels={"a": 0, "/data/b.mp4": 1})
    items = [windows[k] for k in range(len(windows))]
    assert [(item["video"], item["label"], item["index"].tolist()) for item in items] == [
        *((0, 0, list(range(2 * k, 2 * k + 8, 2))) for k in range(0, 17, 3)),
        (1, 1, [0, 2, 4, 6]),
    ]
    assert (windows.names, windows[-1]["video"]) == (("a", "b", "c"), 1)
    assert items[0]["features"].tolist() == [[float(k)] * 4 for k in (0, 2, 4, 6)]
    np.testing.assert_allclose(items[0]["pts_seconds"], np.array([0, 2, 4, 6]) / 30)
    # An item is a copy.
    items[0]["features"].zero_()
    assert windows[0]["features"].tolist() == [[float(k)] * 4 for k in (0, 2, 4, 6)]
    with pytest.raises(IndexError):
        windows[len(windows)]


def test_windows_do_not_overlap_by_default_and_can_be_of_selected_videos(features):
    windows = features.dataset(4)
    assert (len(windows), "label" in windows[0]) == (5 + 1, False)
    windows = features.dataset(videos=["b"], labels={"b": "park"})
    assert (len(windows), windows.names) == (5, ("b",))
    assert {windows[k]["label"] for k in range(5)} == {"park"}
    # A video without windows needs no label.
    assert len(features.dataset(5, labels={"a": 1, "b": 2})) == 5


@pytest.mark.parametrize("held_bytes", [0, 1 << 20])
def test_windows_hold_videos_within_the_limit(features, held_bytes):
    windows = features.dataset(held_bytes=held_bytes)
    assert [windows[k]["index"].item() for k in (0, 20, 1, 21)] == [0, 0, 2, 2]
    assert len(windows._held) == (2 if held_bytes else 1)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_head_can_be_trained_on_windows_of_a_data_loader(features, workers):
    windows = features.dataset(2, labels={"a": 0, "b": 1})
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


VIDEOS = tuple(
    RequestedVideo(name=name, path=f"/data/{name}.mp4", size=1, mtime_ns=1)
    for name in ("z", "a", "crashes", "hangs\udcff")
)


@pytest.fixture
def finished(tmp_path):
    """Return the folder of a run: `z` and `a` done except a chunk of `z`, the others failed."""
    rows = [row("z", 0, 8, chunk_id="00000-00000000-00000008"), row("a", 0, 4, chunk_id="00001-")]
    list(write_tables(tmp_path, rows, facts()))
    home = tmp_path / ".extraction"
    (home / "parts").mkdir(parents=True)
    request = OutputSpec(kind="features", asked={}, videos=VIDEOS)
    (home / "request.json").write_text(request.text())
    chunks = ["00000-00000008-00000016", "00000-00000016-00000024", "00002-00000000-00000008"]
    reasons = {
        **dict.fromkeys(chunks, "it crashed"),
        "00003-00000000-00000008": "it hung",
        "00009-00000000-00000008": "of another request",
        "nonsense": "no chunk",
    }
    letters = {chunk: {"reason": reason, "decoder": "1"} for chunk, reason in reasons.items()}
    (home / "quarantine.json").write_text(json.dumps(letters))
    session = {
        **{"outcome": "complete", "outputs": ["features-00000.parquet", "report.html"]},
        **{"inputs": [{"path": "/data/a.mp4"}, {"path": "/data/crashes.mp4"}]},
        "lost": [
            {"input": 0, "index": 3, "cause": "a frame is damaged"},
            {"input": 1, "index": None, "cause": "it cannot be opened"},
        ],
    }
    (tmp_path / "session.json").write_text(json.dumps(session))
    return tmp_path


def test_all_requested_videos_are_listed_in_order_with_their_errors(finished):
    features = read_features(finished)
    assert {name: (len(video), video.errors) for name, video in features.items()} == {
        "z": (4, ("it crashed",)),
        "a": (2, ()),
        "crashes": (0, ("it crashed", "it cannot be opened")),
        "hangs\\udcff": (0, ("it hung",)),
    }
    assert list(features) == ["z", "a", "crashes", "hangs\\udcff"]
    assert features["crashes"].path == "/data/crashes.mp4"
    assert features["crashes"].features.shape == (0, 4)
    assert features.is_ended is True


def interrupted(folder):
    (folder / "session.json").write_text(json.dumps({"outcome": "interrupted", "outputs": []}))


def killed(folder):
    (folder / ".extraction" / "parts" / "00001-00000004-00000008").touch()


def killed_before_its_record(folder):
    killed(folder)
    (folder / "session.json").unlink()


def without_a_table(folder):
    list(write_tables(folder, [row("a", 0, 4)], facts()))
    (folder / "features-00000.parquet").unlink()


@pytest.mark.parametrize("end", [interrupted, killed, killed_before_its_record, without_a_table])
def test_an_interrupted_extraction_or_one_without_a_table_has_not_ended(finished, end):
    end(finished)
    assert read_features(finished).is_ended is False


@pytest.mark.parametrize("text", ["", "[]", '"x"', "{}", '{"outcome": 1, "outputs": 2}'])
def test_unreadable_records_are_ignored(finished, text):
    (finished / "session.json").write_text(text)
    assert read_features(finished).is_ended is False
    (finished / ".extraction" / "quarantine.json").write_text(text)
    assert read_features(finished)["z"].errors == ()
    (finished / ".extraction" / "request.json").write_text(text)
    assert read_features(finished).is_ended is None


def test_tables_without_records_can_be_read(finished, tmp_path):
    alone = tmp_path / "alone"
    alone.mkdir()
    (finished / "features-00000.parquet").rename(alone / "features-00000.parquet")
    features = read_features(alone)
    assert list(features) == ["z", "a"]
    assert features.is_ended is None
