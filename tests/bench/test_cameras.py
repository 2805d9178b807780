"""Camera experiments: equal frames first, then every way in turn."""

import re
from fractions import Fraction

import numpy as np
import pytest

from headrace.bench import camera_rank
from headrace.bench.benchmark import Context
from headrace.bench.camera_rank import CameraSubset, RankTask, check_equal_cameras, run_rank
from headrace.bench.cameras import CamerasConfig, measure_cameras
from headrace.decode.bare_loop import plain_frames
from headrace.decode.index_store import IndexStore
from headrace.errors import DecodeError
from headrace.testing.synth import SynthClip, write_clip
from headrace.training.cameras.alignment import Alignment
from headrace.training.cameras.camera_set import CameraSet
from headrace.video.camera_layout import CameraLayout
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
    seen, said = [], []
    config = CamerasConfig(
        index_file=folder / "index.json",
        ways=("loader",),
        ranks=(1, 2),
        workers=(1,),
        group_num=1,
        size=SIZE,
        repeats=2,
        max_seconds=0,
    )
    context = Context(
        on_progress=lambda *turn: seen.append(turn),
        on_word=said.append,
        store=IndexStore(folder / "store"),
    )
    record = measure_cameras(config, context)
    once = [("decode", 1), ("loader", 1), ("decode", 2), ("loader", 2)]
    assert [(run.way, run.ranks) for run in record.runs] == once * 2
    assert seen[:2] == [("opening cameras", 0, 0), ("rehearsing", 0, 0)]
    assert [(done, of) for _, done, of in seen[2:]] == [(k, 9) for k in range(9)]
    assert seen[-1][0] == "loader, ranks 2, workers 1"
    pictures = sum(LENGTHS.values()) * len(CAMERAS)
    assert record.pictures == record.pictures_read == pictures
    [words] = said
    assert re.fullmatch(r"Time: about .* for 9 epochs of 45 pictures", words)
    assert {(run.delivered, run.decoded) for run in record.runs} == {(pictures, pictures)}
    assert record.compared == 2 * 8 * len(CAMERAS)
    assert record.provenance.configuration["index_file"] == str(folder / "index.json")


def test_a_bare_loop_brings_every_frame(folder):
    layout = layout_of(folder / "videos")
    plain, store = PlainCameras(layout), IndexStore(folder / "store")
    index = CameraSet.open(layout, store=store).clips[0].indexes[2]
    for number, frame in enumerate(plain_frames(index, SIZE)):
        assert np.array_equal(frame, plain.frames[0][2][number])
    assert number == 9


def test_a_pixel_that_differs_is_named_before_anything_is_timed(folder, monkeypatch):
    def off_by_one(index, size):
        for number, frame in enumerate(plain_frames(index, size)):
            frame[3, 4, 1] += number == 2 and "front" in str(index.source)
            yield frame

    part = CameraSubset(layout=layout_of(folder / "videos"), alignment=Alignment())
    store = IndexStore(folder / "store")
    clip = part.open(store).clips[0]
    assert check_equal_cameras(part, clip, store, SIZE) == 48
    monkeypatch.setattr(camera_rank, "plain_frames", off_by_one)
    with pytest.raises(DecodeError, match=r"frame 2 of .*a/front\.mp4 is not the same"):
        check_equal_cameras(part, clip, store, SIZE)


def test_clips_are_cut_where_all_epochs_would_take_too_long(folder):
    """To two moments of each slot, and no fewer."""
    said = []
    config = CamerasConfig(
        index_file=folder / "index.json",
        ways=("decode",),
        ranks=(1,),
        workers=(1,),
        group_num=2,
        size=SIZE,
        max_seconds=1e-3,
    )
    store = IndexStore(folder / "store")
    record = measure_cameras(config, Context(on_word=said.append, store=store))
    assert (record.pictures, record.pictures_read) == (45, 2 * 2 * len(CAMERAS))
    assert {(run.delivered, run.decoded) for run in record.runs} == {(12, 12)}
    assert said[0].endswith("for 2 epochs of 12 of 45 pictures (--max-seconds 0 reads all)")


def test_cameras_of_other_rates_are_compared_and_read_by_time(tmp_path):
    """A bare loop reads each as far as its moments go."""
    folder = tmp_path / "videos" / "a"
    folder.mkdir(parents=True)
    for camera, rate, count in (("fast", 20, 12), ("slow", 10, 9)):
        write_clip(
            folder / camera,
            SynthClip(num_frames=count, frame_rate=Fraction(rate), size=(64, 96), gop=4),
        )
    store = IndexStore(tmp_path / "store")
    part = CameraSubset(
        layout=CameraLayout.of_folders([tmp_path / "videos"], lambda file: 12),
        alignment=Alignment(sync="previous", tolerance_ms=51, reference="fast"),
    )
    assert check_equal_cameras(part, part.open(store).clips[0], store, SIZE) == 2 * 2 * 8
    read = {}
    for way in ("decode", "loader"):
        task = RankTask(
            way=way,
            part=part,
            rank=0,
            ranks=1,
            workers=1,
            group_num=1,
            size=SIZE,
            index_store=store.folder,
        )
        read[way] = run_rank(task, lambda: None).delivered
    assert read == {"decode": 12 + 6, "loader": 2 * 12}
