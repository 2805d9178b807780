"""Camera benchmark: equal frames, interleaved epochs, cut clips, estimated time, findings."""

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from bench.clocks import TickingClock
from bench.records import local_provenance
from headrace.bench import camera_epochs
from headrace.bench.benchmark import Context
from headrace.bench.camera_epochs import (
    CameraSubset,
    RankTask,
    calibrate,
    check_equal,
    measure_cameras,
    run_rank,
)
from headrace.bench.cameras import CAMERAS as BENCHMARK
from headrace.bench.cameras import (
    CameraEstimate,
    CameraRun,
    CamerasConfig,
    CameraSetup,
    CamerasRecord,
    rows_of,
    worker_numbers,
)
from headrace.decode.index_store import IndexStore
from headrace.decode.seek_check import pyav_frames
from headrace.errors import DecodeError
from headrace.loaders.cameras.camera_alignment import Alignment
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.camera_layout import CameraLayout
from loaders.cameras.clips import CAMERAS, SIZE, PlainCameras, layout_of, write_layout

LENGTHS = {"a": 10, "b": 5}


def whole(folder):
    """Return all clips of a folder."""
    return CameraSubset(
        layout=layout_of(folder / "videos"),
        alignment=Alignment(),
        store=IndexStore(folder / "store"),
        size=SIZE,
    )


def alone(way, part):
    """Return the task of the only rank of a variant, with one worker."""
    return RankTask(setup=CameraSetup(way, 1, 1), part=part, group_num=1)


def measured(folder, **options):
    """Return the record, the messages and the progress."""
    messages, seen = [], []
    config = CamerasConfig(index_file=folder / "index.json", workers=(1,), size=SIZE, **options)
    context = Context(
        on_progress=lambda *turn: seen.append(turn),
        on_word=messages.append,
        store=IndexStore(folder / "store"),
    )
    return measure_cameras(config, context), messages, seen


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experiment")
    write_layout(folder / "videos", LENGTHS)
    layout = layout_of(folder / "videos")
    (folder / "index.json").write_text(layout.to_json(folder))
    return folder


def test_variants_are_interleaved_with_plain_decoding(folder, forked_ranks):
    record, messages, seen = measured(
        folder, ways=("loader",), ranks=(1, 2), group_num=1, repeats=2, max_seconds=0
    )
    once = [("decode", 1), ("loader", 1), ("decode", 2), ("loader", 2)]
    assert [(run.way, run.ranks) for run in record.runs] == once * 2
    assert seen[:2] == [("opening cameras", 0, 0), ("calibrating", 0, 0)]
    assert [(done, of) for _, done, of in seen[2:]] == [(k, 9) for k in range(9)]
    assert seen[-1][0] == "loader, ranks 2, workers 1"
    pictures = sum(LENGTHS.values()) * len(CAMERAS)
    assert record.pictures == record.pictures_read == pictures
    [message] = messages
    assert re.fullmatch(r"Time: about .* for 9 epochs of 45 frames", message)
    assert {(run.delivered, run.decoded) for run in record.runs} == {(pictures, pictures)}
    assert record.compared == 2 * 8 * len(CAMERAS)
    assert record.provenance.configuration["index_file"] == str(folder / "index.json")


def test_a_bare_loop_yields_every_frame(folder):
    layout = layout_of(folder / "videos")
    plain, store = PlainCameras(layout), IndexStore(folder / "store")
    index = CameraSet.open(layout, index_store=store).clips[0].indexes[2]
    for number, frame in enumerate(pyav_frames(index, SIZE)):
        assert np.array_equal(frame, plain.frames[0][2][number])
    assert number == 9


def test_a_frame_with_a_different_pixel_is_named_before_timing(folder, monkeypatch):
    def off_by_one(index, size):
        for number, frame in enumerate(pyav_frames(index, size)):
            frame[3, 4, 1] += number == 2 and "front" in str(index.source)
            yield frame

    part = whole(folder)
    clip = part.open().clips[0]
    assert check_equal(part, clip) == 48
    monkeypatch.setattr(camera_epochs, "pyav_frames", off_by_one)
    with pytest.raises(DecodeError, match=r"frame 2 of .*a/front\.mp4 differs"):
        check_equal(part, clip)


def test_clips_are_cut_if_all_epochs_would_take_too_long(folder, forked_ranks):
    """Each slot keeps at least two moments."""
    record, messages, _ = measured(
        folder, ways=("decode",), ranks=(1,), group_num=2, max_seconds=1e-3
    )
    assert (record.pictures, record.pictures_read) == (45, 2 * 2 * len(CAMERAS))
    assert {(run.delivered, run.decoded) for run in record.runs} == {(12, 12)}
    assert messages[0].endswith("for 2 epochs of 12 of 45 frames (--max-seconds 0 reads all)")


def test_cameras_of_different_rates_are_compared_and_read_by_time(tmp_path):
    """A bare loop reads each camera up to its last moment."""
    folder = tmp_path / "videos" / "a"
    folder.mkdir(parents=True)
    for camera, rate, count in (("fast", 20, 12), ("slow", 10, 9)):
        write_clip(
            folder / camera,
            SynthClip(num_frames=count, frame_rate=Fraction(rate), size=(64, 96), gop=4),
        )
    part = CameraSubset(
        layout=CameraLayout.of_folders([tmp_path / "videos"], lambda file: 12),
        alignment=Alignment(sync="previous", tolerance_ms=51, reference="fast"),
        store=IndexStore(tmp_path / "store"),
        size=SIZE,
    )
    assert check_equal(part, part.open().clips[0]) == 2 * 2 * 8
    read = {name: run_rank(alone(name, part), lambda: None)[0] for name in ("decode", "loader")}
    assert read == {"decode": 12 + 6, "loader": 2 * 12}


PARTS = {"a": 6, "b": 3, "c": 5}


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Return a folder of clips to cut."""
    folder = tmp_path_factory.mktemp("part")
    write_layout(folder / "videos", PARTS)
    return folder


def lengths(part):
    return {clip.clip.name: clip.moments.tolist() for clip in part.open().clips}


@pytest.mark.parametrize(
    ("moments", "slots", "expected"),
    [
        (6, 1, {"a": 6}),
        (7, 1, {"a": 4, "b": 3}),
        (4, 2, {"a": 2, "b": 2}),
        (4, 9, {"a": 2, "b": 2, "c": 2}),
        (1, 3, {"a": 1, "b": 1, "c": 1}),
        (14, 1, {"a": 5, "b": 3, "c": 5}),
        (1000, 1, PARTS),
    ],
)
def test_a_cut_keeps_enough_clips_of_equal_length(parts, moments, slots, expected):
    part = whole(parts).cut(whole(parts).open(), moments, slots)
    assert lengths(part) == {name: list(range(count)) for name, count in expected.items()}


def test_clips_with_the_same_name_are_cut_to_equal_length(parts, tmp_path):
    """Moments are selected by clip name, and two folders may share a name."""
    write_layout(tmp_path / "others", {"a": 2})
    layout = CameraLayout.of_folders(
        [parts / "videos", tmp_path / "others"], lambda file: 2 if "others" in str(file) else 6
    )
    clips = (layout.clips[0], layout.clips[-1])
    both = replace(whole(parts), layout=CameraLayout(clips=clips, cameras=layout.cameras))
    part = both.cut(both.open(), 8, 2)
    assert [len(clip) for clip in part.open().clips] == [2, 2]


@pytest.fixture
def decoding(tmp_path):
    write_layout(tmp_path / "videos", {"a": 4})
    return alone("decode", whole(tmp_path))


def test_decoding_and_the_start_of_workers_are_timed_separately(decoding):
    """Time before all ranks are ready does not count."""
    clock = TickingClock(1)
    times = calibrate(decoding, lambda: clock.advance(100), workers=(1, 2), clock=clock)
    assert times == (1.0 / (4 * len(CAMERAS)), {1: 1.0, 2: 1.0})


def test_without_worker_variants_no_worker_is_started(decoding):
    _, worker_seconds = calibrate(decoding, lambda: None, workers=(), clock=SYSTEM_CLOCK)
    assert worker_seconds == {}


PACE = CameraEstimate(
    start_seconds=2.0,
    worker_seconds={1: 0.5, 2: 0.75, 3: 3.0},
    picture_seconds=0.01,
    cores=2,
    gop=3.0,
)


@pytest.mark.parametrize(
    ("setup", "seconds"),
    [
        (("decode", 1, 1), 2 + 1),
        (("decode", 1, 2), 2 + 0.5),
        (("decode", 2, 1), 2 + 0.5),
        (("loader", 4, 2), 2 * 2 + 0.5),
        (("dataset", 1, 2), 2 + 0.75 + 0.5 * 1.5),
        (("wandering", 1, 2), 2 + 0.75 + 0.5 * 1.5 * 2),
        (("wandering", 2, 2), 2 + 0.75 * 2 + 0.5 * 1.5 * 3),
        (("dataset", 2, 1), 2 + 0.5 + 0.5 * 1.5),
        (("dataset", 2, 3), 2 + 3.0 * 2 + 0.5 * 1.5),
    ],
)
def test_an_epoch_takes_startup_plus_decoding_on_shared_cores(setup, seconds):
    """If slots wander, each process decodes every frame, up to a GOP per frame."""
    assert PACE.seconds([setup], 100) == pytest.approx(seconds)


def test_workers_are_counted_for_variants_with_a_dataloader():
    setups = [("decode", 1, 1), ("loader", 2, 3), ("wandering", 1, 4), ("dataset", 2, 2)]
    assert worker_numbers(setups) == (2, 4)


def test_the_number_of_frames_fits_into_the_time():
    setups = [("decode", 1, 1), ("wandering", 2, 2), ("dataset", 1, 1)]
    pictures = PACE.pictures(setups, 60.0)
    assert PACE.seconds(setups, pictures) <= 60 < PACE.seconds(setups, pictures + 1)


def test_no_frame_fits_if_startup_takes_longer():
    assert PACE.pictures([("decode", 1, 1)], 1.0) == 0


def run(way, ranks, workers, seconds, decoded=600, others=0.0):
    times = {"seconds": seconds, "cpu_seconds": 3.0, "others_cpu_seconds": others * seconds}
    read = {"delivered": 600, "decoded": decoded}
    return CameraRun(way=way, ranks=ranks, workers=workers, **times, **read)


def record(*runs):
    facts = {"clips": 10, "cameras": 6, "pictures": 600, "compared": 96}
    return CamerasRecord(provenance=local_provenance(), runs=runs, **facts)


MEASURED = record(
    run("decode", 1, 1, 4.0),
    run("loader", 1, 1, 5.0),
    run("decode", 2, 1, 2.0),
    run("loader", 2, 1, 2.5),
    run("wandering", 2, 1, 8.0, decoded=2400),
)


def test_a_variant_is_compared_with_plain_decoding_by_equal_ranks_and_workers():
    share = {(row.variant, row.first.ranks): row.share for row in rows_of(MEASURED)}
    expected = {("decode", 1): 1, ("loader", 1): 0.8, ("decode", 2): 1, ("loader", 2): 0.8}
    assert share == pytest.approx({**expected, ("wandering", 2): 0.25})


def test_repetitions_of_one_variant_are_one_row_of_medians():
    repeated = record(
        *(run("decode", 1, 1, seconds) for seconds in (2.0, 4.0, 3.0)),
        *(run("loader", 1, 1, seconds) for seconds in (4.0, 5.0, 60.0)),
    )
    decode, loader = rows_of(repeated)
    assert (decode.rate.median, loader.rate.median) == (200, 120)
    assert BENCHMARK.page(repeated).table.rows[1][-2] == "5.00"


def test_findings_on_variants(check_pages):
    plain, loader = run("decode", 1, 1, 4.0), run("loader", 1, 1, 5.0)
    busy = (run("decode", 1, 1, 4.0, others=4), loader, run("wandering", 1, 1, 10.0))
    cases = {
        "slots stay and wander": MEASURED,
        "other programs ran": record(*busy),
        "decoded twice": record(plain, run("loader", 1, 1, 5.0, decoded=1200)),
        "plain decoding alone": record(plain),
        "clips were cut": MEASURED.model_copy(update={"pictures_read": 60}),
    }
    check_pages(BENCHMARK, cases)
