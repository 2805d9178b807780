"""Camera experiments: equal frames first, then every way in turn."""

import numpy as np
import pytest

from headrace.decode.bare_loop import plain_frames
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError, DecodeError
from headrace.experiments import camera_equality
from headrace.experiments.camera_equality import check_equal_cameras
from headrace.experiments.cameras import CamerasConfig, measure_cameras
from headrace.experiments.experiment import Context
from training.cameras.clips import CAMERAS, SIZE, PlainCameras, layout_of, write_layout

LENGTHS = {"a": 10, "b": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experiment")
    write_layout(folder / "videos", LENGTHS)
    layout = layout_of(folder / "videos")
    (folder / "index.json").write_text(layout.to_json(folder))
    return folder


def test_ways_take_turns_beside_plain_decoding_by_as_many(folder):
    seen = []
    config = CamerasConfig(
        index_file=folder / "index.json",
        ways=("loader",),
        ranks=(1, 2),
        workers=(1,),
        group_num=1,
        size=SIZE,
        repeats=2,
    )
    record = measure_cameras(
        config,
        Context(on_progress=lambda *turn: seen.append(turn), store=IndexStore(folder / "store")),
    )
    once = [("decode", 1), ("loader", 1), ("decode", 2), ("loader", 2)]
    assert [(run.way, run.ranks) for run in record.runs] == once * 2
    assert [(done, of) for _, done, of in seen] == [(k, 9) for k in range(9)]
    assert seen[-1][0] == "loader, ranks 2, workers 1"
    pictures = sum(LENGTHS.values()) * len(CAMERAS)
    assert record.pictures == pictures
    assert {(run.delivered, run.decoded) for run in record.runs} == {(pictures, pictures)}
    assert record.compared == 2 * 8 * len(CAMERAS)
    assert record.provenance.configuration["index_file"] == str(folder / "index.json")


def test_a_bare_loop_brings_every_frame(folder):
    layout = layout_of(folder / "videos")
    plain, store = PlainCameras(layout), IndexStore(folder / "store")
    index = camera_equality.CameraSet.open(layout, store=store).clips[0].indexes[2]
    for number, frame in enumerate(plain_frames(index, SIZE)):
        assert np.array_equal(frame, plain.frames[0][2][number])
    assert number == 9


def test_a_pixel_that_differs_is_named_before_anything_is_timed(folder, monkeypatch):
    def off_by_one(index, size):
        for number, frame in enumerate(plain_frames(index, size)):
            frame[3, 4, 1] += number == 2 and "front" in str(index.source)
            yield frame

    layout, store = layout_of(folder / "videos"), IndexStore(folder / "store")
    assert check_equal_cameras(layout, store, SIZE) == 48
    monkeypatch.setattr(camera_equality, "plain_frames", off_by_one)
    with pytest.raises(DecodeError, match=r"frame 2 of .*a/front\.mp4 is not the same"):
        check_equal_cameras(layout, store, SIZE)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ranks": ()}, "ranks must be numbers from 1 up"),
        ({"workers": (0,)}, "workers must be numbers from 1 up"),
        ({"repeats": 0}, "repeats must be >= 1"),
        ({"ways": ("fast",)}, "ways must be among decode, loader, dataset, wandering; got fast"),
    ],
)
def test_impossible_configurations_are_refused(folder, options, said):
    with pytest.raises(ConfigError, match=said):
        CamerasConfig(index_file=folder / "index.json", **options)
