"""A set in nuScenes' form: the right picture, time, pose and box at each moment."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from headrace.errors import ConfigError, DecodeError, HeadraceError
from headrace.testing.nuscenes import NuScenesSet, write_nuscenes
from headrace.testing.synth import read_number
from headrace.training.cameras.alignment import Alignment, CameraClock
from headrace.training.cameras.camera_set import CameraSet
from headrace.training.cameras.camera_times import CameraTimes
from headrace.training.cameras.datasets import CameraStreamDataset
from headrace.training.cameras.loader import CameraLoader
from headrace.training.cameras.metadata import ClipMoment
from headrace.training.cameras.nuscenes import NuScenes
from headrace.training.cameras.stream_sampler import CameraStreamSampler
from headrace.video.camera_layout import CameraLayout

CAMERAS = ("CAM_FRONT", "CAM_FRONT_RIGHT", "CAM_BACK")
MADE = NuScenesSet(
    durations_seconds=(1.5, 1.0), cameras=CAMERAS, size=(64, 96), lost={"CAM_BACK": (5,)}
)
SIZE = (64, 96)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_nuscenes(tmp_path_factory.mktemp("made") / "set", MADE)


@pytest.fixture(scope="module")
def layout(folder):
    return NuScenes.read(folder).link_pictures(folder / "links")


def nearest(times, moment):
    """Return the place of the time that is nearest, of equals the earlier."""
    return min(range(len(times)), key=lambda place: (abs(times[place] - moment), place))


def check_pictures(batch, cameras, reference):
    """Hold every picture against the frame that was taken nearest to its moment, by its pixels."""
    for place, name in enumerate(batch["clip_name"]):
        if not name:
            continue
        scene = MADE.scenes.index(name)
        moment = reference(scene)[int(batch["index"][place])]
        for number, camera in enumerate(cameras):
            times = MADE.camera_times_us(scene, camera)
            frame = nearest(times, moment)
            shown = read_number(batch["frames"][place, number].permute(1, 2, 0).numpy())
            assert shown == frame == int(batch["frame"][place, number])
            assert float(batch["pts_seconds"][place, number]) == times[frame] / 1e6
            late = (times[frame] - moment) / 1e3
            assert float(batch["error_ms"][place, number]) == pytest.approx(late, abs=1e-3)


@pytest.mark.parametrize("reference", ["CAM_BACK", "CAM_FRONT", "LIDAR_TOP"])
def test_each_moment_shows_the_frames_that_were_taken_nearest(folder, layout, reference):
    def reference_times(scene):
        if reference == "LIDAR_TOP":
            return MADE.lidar_times_us(scene)
        return MADE.camera_times_us(scene, reference)

    nuscenes = NuScenes.read(folder)
    alignment = Alignment(
        sync="nearest", reference=reference, times=nuscenes.times, tolerance_ms=100
    )
    shown = 0
    with CameraLoader(layout, group_num=2, size=SIZE, alignment=alignment) as loader:
        for batch in loader:
            check_pictures(batch, loader.cameras, reference_times)
            shown += int((batch.clip >= 0).sum())
    assert shown == sum(len(reference_times(scene)) for scene in range(2))


def test_videos_at_a_constant_rate_are_aligned_by_the_tables(tmp_path):
    made = NuScenesSet(
        durations_seconds=(1.5, 1.0),
        cameras=CAMERAS,
        size=SIZE,
        lost={"CAM_BACK": (5,)},
        form="videos",
    )
    folder = write_nuscenes(tmp_path / "set", made)
    nuscenes = NuScenes.read(folder)
    layout = CameraLayout.read(folder / "index_frame.json")
    alignment = Alignment(sync="nearest", times=nuscenes.times, tolerance_ms=100)
    with CameraLoader(
        layout, group_num=2, size=SIZE, alignment=alignment, metadata=nuscenes.metadata
    ) as loader:
        for batch in loader:
            check_pictures(
                batch, loader.cameras, lambda scene: made.camera_times_us(scene, "CAM_BACK")
            )


def test_a_stock_dataloader_carries_what_the_tables_have(folder, layout):
    nuscenes = NuScenes.read(folder)
    cameras = CameraStreamDataset(
        layout,
        num_of_set=2,
        size=SIZE,
        alignment=Alignment(sync="nearest", times=nuscenes.times, tolerance_ms=100),
        metadata=nuscenes.metadata,
    )
    sampler = CameraStreamSampler(cameras, group_num=2)
    boxes = 0
    for batch in DataLoader(cameras, batch_sampler=sampler):
        check_pictures(batch, layout.cameras, lambda scene: MADE.camera_times_us(scene, "CAM_BACK"))
        boxes += sum(len(found.get("annotations", ())) for found in batch["metadata"])
    assert boxes == 3 + 2


def moment_of(**frames) -> ClipMoment:
    return ClipMoment(number=0, seconds=0.0, frames=frames, cameras=CAMERAS)


def test_matrices_bring_a_point_of_a_camera_into_the_world(folder):
    found = NuScenes.read(folder).metadata("scene-0002", moment_of(CAM_FRONT=0, CAM_BACK=3))
    assert found["intrinsics"].dtype == torch.float64
    focal = 0.8 * 96
    assert found["intrinsics"][0].tolist() == [[focal, 0, 48], [0, focal, 32], [0, 0, 1]]
    assert found["intrinsics"][1].isnan().all()
    assert found["filename"][1] == ""
    # One metre ahead of each camera: x of the car for the front one, -x for the one behind.
    ahead = torch.tensor([0.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    assert torch.allclose(found["sensor_to_ego"][0] @ ahead, torch.eye(4).double()[0])
    times, first = MADE.camera_times_us(1, "CAM_BACK"), MADE.sample_times_us(1)[0]
    x, y, z = found["ego_to_global"][2][:3, 3].tolist()
    assert (x, y, z) == pytest.approx((5 * (times[3] - first) / 1e6, 10, 0))
    turn = found["ego_to_global"][2][:3, :3]
    assert torch.allclose(turn @ turn.T, torch.eye(3).double())


def test_key_frames_are_those_of_the_tables_and_only_they_have_boxes(folder):
    nuscenes = NuScenes.read(folder)
    keys = nuscenes.key_frames("CAM_FRONT")
    assert {scene: len(frames) for scene, frames in keys.items()} == {
        "scene-0001": 3,
        "scene-0002": 2,
    }
    for frame in range(12):
        found = nuscenes.metadata("scene-0002", moment_of(CAM_FRONT=frame))
        is_key = frame in keys["scene-0002"]
        assert bool(found["sample_token"]) == is_key == (len(found["annotations"]) == 1)
        for box in found["annotations"]:
            assert box["category"] == "human.pedestrian.adult"
    assert nuscenes.key_frames("LIDAR_TOP")["scene-0001"] == [0, 10, 20]
    with pytest.raises(ConfigError, match="no sensor CAM_TOP; there is CAM_BACK"):
        nuscenes.key_frames("CAM_TOP")


def test_links_are_kept_and_something_else_in_the_way_is_refused(folder, tmp_path):
    nuscenes = NuScenes.read(folder)
    nuscenes.link_pictures(tmp_path, ["scene-0002"])
    links = tmp_path / "scene-0002" / "CAM_FRONT"
    before = links.stat().st_mtime_ns
    assert len(list(links.iterdir())) == 12
    layout = nuscenes.link_pictures(tmp_path, ["scene-0002"])
    assert [clip.name for clip in layout.clips] == ["scene-0002"]
    assert links.stat().st_mtime_ns == before
    (links / "own.jpg").write_bytes(b"")
    with pytest.raises(ConfigError, match="holds other files than links to these pictures"):
        nuscenes.link_pictures(tmp_path)
    with pytest.raises(ConfigError, match=r"scenes must be a list of names, such as \['scene-000"):
        nuscenes.link_pictures(tmp_path, "scene-0002")
    with pytest.raises(ConfigError, match="there is no scene scene-0009; there is scene-0001"):
        nuscenes.link_pictures(tmp_path, ["scene-0009"])


def test_ranks_may_link_pictures_at_the_same_time(folder, tmp_path):
    nuscenes, ready = NuScenes.read(folder), Barrier(4)

    def link(_):
        ready.wait()
        return nuscenes.link_pictures(tmp_path / "links")

    with ThreadPoolExecutor(4) as ranks:
        found = [*ranks.map(link, range(4))]
    assert len(set(map(str, found))) == 1
    linked = [path for path in (tmp_path / "links").rglob("*") if not path.is_symlink()]
    assert len(linked) == len(MADE.scenes) * (1 + len(CAMERAS))  # folders, and nothing left over


def test_a_missing_picture_is_named_and_no_link_is_made(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns("links"))
    gone = sorted((copy / "sweeps" / "CAM_BACK").iterdir())[0]
    gone.unlink()
    with pytest.raises(
        ConfigError, match=rf"1 of 17 pictures are not there, the first is .*{gone.stem}"
    ):
        NuScenes.read(copy).link_pictures(tmp_path / "links")
    assert not (tmp_path / "links").exists()


def changed(folder, tmp_path, table, change):
    copy = tmp_path / "changed"
    shutil.copytree(folder / "v1.0-mini", copy / "v1.0-mini")
    path = copy / "v1.0-mini" / f"{table}.json"
    rows = json.loads(path.read_text())
    change(rows)
    path.write_text(json.dumps(rows))
    return copy


@pytest.mark.parametrize(
    ("table", "change", "said"),
    [
        ("sample", lambda rows: rows.clear(), "sample_data .* refers to sample_token"),
        ("sample_data", lambda rows: rows[3].pop("timestamp"), "row 3 of .* has no timestamp"),
        (
            "sample_data",
            lambda rows: rows[0].update(filename="../secret.jpg"),
            "names a file '../secret.jpg', which is not inside the set",
        ),
        ("scene", lambda rows: rows[0].update(name=3), "has no name, which must be of type str"),
        ("sensor", lambda rows: rows.append(3), "row 4 of .*sensor.json has no token"),
        ("ego_pose", lambda rows: rows.pop(), "refers to ego_pose_token"),
    ],
)
def test_tables_that_do_not_go_together_are_refused(folder, tmp_path, table, change, said):
    copy = changed(folder, tmp_path, table, change)
    with pytest.raises(ConfigError, match=said):
        NuScenes.read(copy)


def test_tables_that_are_not_there_are_named(folder, tmp_path):
    with pytest.raises(ConfigError, match=r"the versions in .* are: v1\.0-mini"):
        NuScenes.read(folder, "v1.0-trainval")
    with pytest.raises(ConfigError, match="are: none"):
        NuScenes.read(tmp_path)
    copy = changed(folder, tmp_path, "scene", lambda rows: None)
    (copy / "v1.0-mini" / "sample.json").unlink()
    with pytest.raises(ConfigError, match=r"cannot read the table .*sample\.json: no such file"):
        NuScenes.read(copy)
    (copy / "v1.0-mini" / "sample.json").write_text("{")
    with pytest.raises(ConfigError, match="is no table of nuScenes"):
        NuScenes.read(copy)


def test_the_test_set_has_no_boxes(folder, tmp_path):
    copy = changed(folder, tmp_path, "scene", lambda rows: None)
    for name in ("category", "instance", "sample_annotation"):
        (copy / "v1.0-mini" / f"{name}.json").unlink()
    found = NuScenes.read(copy).metadata("scene-0001", moment_of(CAM_FRONT=0))
    assert found["sample_token"]
    assert found["annotations"] == []


def test_a_frame_that_the_tables_do_not_list_is_refused(folder):
    nuscenes = NuScenes.read(folder)
    with pytest.raises(ConfigError, match="have 12 frames of CAM_FRONT in 'scene-0002', and fra"):
        nuscenes.metadata("scene-0002", moment_of(CAM_FRONT=12))
    with pytest.raises(ConfigError, match="no scene 'a'; they have scene-0001"):
        nuscenes.metadata("a", moment_of())


@pytest.mark.parametrize("sync", ["nearest", "previous"])
@pytest.mark.parametrize("seed", range(6))
def test_offsets_drift_gaps_and_rolling_starts_are_as_a_plain_search_has_them(layout, sync, seed):
    """Times drawn at random, against a loop over all frames; decodes nothing."""
    rng = np.random.default_rng(seed)
    drawn = {}
    for clip in layout.clips:
        drawn[clip.name] = {"clock": np.sort(rng.uniform(0, 1.5, 25)).tolist()}
        for camera in layout.cameras:
            count = len(list((clip.folder / camera).iterdir()))
            steps = rng.uniform(0.5, 1.5, count) / 12
            steps[rng.integers(count)] += rng.uniform(0, 0.5)
            times = rng.uniform(-0.2, 0.2) + np.cumsum(steps) * rng.uniform(0.9, 1.1)
            drawn[clip.name][camera] = times.tolist()
    for reference in ("clock", layout.cameras[1]):
        alignment = Alignment(
            sync=sync,
            times=CameraTimes.of(drawn),
            reference=reference,
            tolerance_ms=60,
            on_missing="mask",
        )
        for clip in CameraSet.open(layout, alignment).clips:
            times = drawn[clip.clip.name]
            expected = [
                [plain(times[camera], moment, sync) for camera in layout.cameras]
                for moment in times[reference]
            ]
            assert clip.frames.tolist() == expected
            assert clip.moment_seconds.tolist() == times[reference]


def plain(times, moment, sync):
    near = [
        (abs(each - moment), frame)
        for frame, each in enumerate(times)
        if abs(each - moment) <= 0.06 and (sync == "nearest" or each <= moment)
    ]
    return min(near)[1] if near else -1


def times_with(layout, **changed):
    """Return times of all cameras at 12 Hz, some of the first clip changed."""
    whole = {
        clip.name: {
            camera: [n / 12 for n in range(len(list((clip.folder / camera).iterdir())))]
            for camera in layout.cameras
        }
        for clip in layout.clips
    }
    whole[layout.clips[0].name] |= changed
    return CameraTimes.of({clip: {c: t for c, t in of.items() if t} for clip, of in whole.items()})


@pytest.mark.parametrize(
    ("changed", "options", "said"),
    [
        (
            {"CAM_BACK": [0.0]},
            {},
            "has 1 times for CAM_BACK of clip 'scene-0001', and there are 17",
        ),
        ({"CAM_BACK": []}, {}, "no times of the camera 'CAM_BACK' of clip 'scene-0001'"),
        (
            {"lidar": [0.0]},
            {"reference": "lidar"},
            "no times of the clock 'lidar' of clip 'scene-0",
        ),
        ({}, {"reference": "lidar"}, r"that are read, .*, or longest; got 'lidar'"),
        (
            {"lidar": [0.0]},
            {"reference": "lidar", "sync": "index"},
            "'lidar' is a clock, and sync='index' does not look at times",
        ),
        (
            {"CAM_BACK": [n / 12 + 100 for n in range(17)]},
            {},
            "has no frame for 17 of 17 moments",
        ),
    ],
)
def test_times_that_do_not_fit_the_files_are_refused(layout, changed, options, said):
    times = times_with(layout, **changed)
    asked = {"sync": "nearest", "on_missing": "raise", **options}
    with pytest.raises(HeadraceError, match=said):
        CameraSet.open(layout, Alignment(times=times, **asked))


def test_a_clock_without_a_frame_near_says_so(layout):
    times = times_with(layout, lidar=[1e3] * 40)
    times.seconds[layout.clips[1].name]["lidar"] = np.array([1e3] * 40)
    with pytest.raises(DecodeError, match="no frame for 40 of 40 moments, the first is frame 0 of"):
        CameraSet.open(layout, Alignment(sync="nearest", times=times, reference="lidar"))


def test_clocks_come_on_top_of_times(layout):
    late = {"CAM_BACK": CameraClock(offset_seconds=0.25, rate=2.0)}
    alignment = Alignment(
        sync="nearest", times=times_with(layout), clocks=late, on_missing="mask", tolerance_ms=1
    )
    clip = CameraSet.open(layout, alignment).clips[0]
    assert clip.moment_seconds[:3].tolist() == [0.25, 0.25 + 2 / 12, 0.25 + 4 / 12]
    assert clip.frames[:3].tolist() == [[0, 3, 3], [1, 5, 5], [2, 7, 7]]


def test_what_is_no_times_is_refused():
    with pytest.raises(ConfigError, match=r"times must be CameraTimes, .* got str"):
        Alignment(times="times.csv")


def test_pictures_that_are_read_as_videos_are_told_to_need_a_rate(layout, tmp_path):
    layout.write(tmp_path / "index_frame.json")
    with pytest.raises(
        ConfigError, match=r"no camera was found.*; folders of pictures are read wi"
    ):
        CameraLayout.read(tmp_path / "index_frame.json")


def test_a_clock_that_nobody_has_is_refused_with_those_that_have_times(folder, layout):
    alignment = Alignment(sync="nearest", reference="LIDAR", times=NuScenes.read(folder).times)
    with pytest.raises(ConfigError, match=r"a clock that has times \(LIDAR_TOP\), or longest"):
        CameraSet.open(layout, alignment)
