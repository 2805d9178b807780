"""A set in nuScenes' format: exact image, time, pose and box of each moment."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Barrier

import numpy as np
import pytest
import torch

from headrace import Alignment, CameraClock, CameraLayout, CameraTimes, ClipMoment, NuScenes
from headrace.loaders.cameras.camera_set import CameraSet
from headrace.testing.nuscenes import NuScenesSet, write_nuscenes
from headrace.testing.synth import read_number

CAMERAS = ("CAM_FRONT", "CAM_FRONT_RIGHT", "CAM_BACK")
SIZE = (64, 96)
MADE = NuScenesSet(
    durations_seconds=(1.5, 1.0), cameras=CAMERAS, size=SIZE, lost={"CAM_BACK": (5,)}
)

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_nuscenes(tmp_path_factory.mktemp("made") / "set", MADE)


@pytest.fixture(scope="module")
def nuscenes(folder):
    return NuScenes.read(folder)


@pytest.fixture(scope="module")
def layout(folder, nuscenes):
    return nuscenes.link_pictures(folder / "links")


def times_of(sensor, scene):
    """Return the times of a sensor in a scene, in microseconds."""
    is_lidar = sensor == "LIDAR_TOP"
    return MADE.lidar_times_us(scene) if is_lidar else MADE.camera_times_us(scene, sensor)


def plain(times, moment, sync="nearest", within=1e9):
    """Return the index of the nearest time, of equals the earlier; -1 for none."""
    near = [
        (abs(time - moment), frame)
        for frame, time in enumerate(times)
        if abs(time - moment) <= within and (sync == "nearest" or time <= moment)
    ]
    return min(near)[1] if near else -1


def check_pictures(batch, cameras, reference="CAM_BACK"):
    """Compare every frame, by the number in its pixels, with the one nearest to its moment."""
    for position, name in enumerate(batch["clip_name"]):
        if not name:
            continue
        scene = MADE.scenes.index(name)
        moment = times_of(reference, scene)[int(batch["index"][position])]
        for number, camera in enumerate(cameras):
            times = MADE.camera_times_us(scene, camera)
            frame = plain(times, moment)
            shown = read_number(batch["frames"][position, number].permute(1, 2, 0).numpy())
            assert shown == frame == int(batch["frame"][position, number])
            assert float(batch["pts_seconds"][position, number]) == times[frame] / 1e6
            late = (times[frame] - moment) / 1e3
            assert float(batch["error_ms"][position, number]) == pytest.approx(late, abs=1e-3)


@pytest.fixture
def aligned(nuscenes):
    """Return a function: the options of cameras aligned by the tables."""
    near = partial(Alignment, sync="nearest", times=nuscenes.times, tolerance_ms=100)
    return lambda **options: {"size": SIZE, "alignment": near(**options)}


@pytest.mark.parametrize("reference", ["CAM_BACK", "CAM_FRONT", "LIDAR_TOP"])
def test_each_moment_shows_the_frames_that_were_taken_nearest(cameras, layout, aligned, reference):
    loader = cameras(layout, **aligned(reference=reference))
    shown = 0
    for batch in loader:
        check_pictures(batch, loader.cameras, reference)
        shown += int((batch.clip >= 0).sum())
    assert shown == sum(len(times_of(reference, scene)) for scene in range(2))


def test_videos_at_a_constant_rate_are_aligned_by_the_tables(cameras, tmp_path):
    folder = write_nuscenes(tmp_path / "set", replace(MADE, form="videos"))
    nuscenes = NuScenes.read(folder)
    layout = CameraLayout.read(folder / "index_frame.json")
    alignment = Alignment(sync="nearest", times=nuscenes.times, tolerance_ms=100)
    loader = cameras(layout, size=SIZE, alignment=alignment, metadata=nuscenes.metadata)
    for batch in loader:
        check_pictures(batch, loader.cameras)


def test_a_stock_dataloader_yields_the_metadata_of_the_tables(by_stock, nuscenes, layout, aligned):
    _, batches = by_stock(layout, metadata=nuscenes.metadata, **aligned())
    boxes = 0
    for batch in batches:
        check_pictures(batch, layout.cameras)
        boxes += sum(len(result.get("annotations", ())) for result in batch["metadata"])
    assert boxes == 3 + 2


def moment_of(**frames) -> ClipMoment:
    return ClipMoment(number=0, seconds=0.0, frames=frames, cameras=CAMERAS)


def test_matrices_bring_a_point_of_a_camera_into_the_world(nuscenes):
    result = nuscenes.metadata("scene-0002", moment_of(CAM_FRONT=0, CAM_BACK=3))
    assert result["intrinsics"].dtype == torch.float64
    focal = 0.8 * 96
    assert result["intrinsics"][0].tolist() == [[focal, 0, 48], [0, focal, 32], [0, 0, 1]]
    assert result["intrinsics"][1].isnan().all()
    assert result["filename"][1] == ""
    # One metre ahead of each camera: x of the car for the front one, -x for the one behind.
    ahead = torch.tensor([0.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    assert torch.allclose(result["sensor_to_ego"][0] @ ahead, torch.eye(4).double()[0])
    times, first = MADE.camera_times_us(1, "CAM_BACK"), MADE.sample_times_us(1)[0]
    x, y, z = result["ego_to_global"][2][:3, 3].tolist()
    assert (x, y, z) == pytest.approx((5 * (times[3] - first) / 1e6, 10, 0))
    rotation = result["ego_to_global"][2][:3, :3]
    assert torch.allclose(rotation @ rotation.T, torch.eye(3).double())


def test_key_frames_are_those_of_the_tables_and_only_they_have_boxes(nuscenes):
    keys = nuscenes.key_frames("CAM_FRONT")
    assert {scene: len(each) for scene, each in keys.items()} == {"scene-0001": 3, "scene-0002": 2}
    for frame in range(12):
        result = nuscenes.metadata("scene-0002", moment_of(CAM_FRONT=frame))
        is_key = frame in keys["scene-0002"]
        assert bool(result["sample_token"]) == is_key == (len(result["annotations"]) == 1)
        for box in result["annotations"]:
            assert box["category"] == "human.pedestrian.adult"
    assert nuscenes.key_frames("LIDAR_TOP")["scene-0001"] == [0, 10, 20]


def test_links_are_kept(nuscenes, tmp_path):
    links, stamps = tmp_path / "scene-0002" / "CAM_FRONT", set()
    for _ in range(2):
        layout = nuscenes.link_pictures(tmp_path, ["scene-0002"])
        stamps.add(links.stat().st_mtime_ns)
        assert len(list(links.iterdir())) == 12
        assert [clip.name for clip in layout.clips] == ["scene-0002"]
    assert len(stamps) == 1


def test_ranks_may_link_pictures_at_the_same_time(nuscenes, tmp_path):
    ready = Barrier(4)

    def link(_):
        ready.wait()
        return nuscenes.link_pictures(tmp_path / "links")

    with ThreadPoolExecutor(4) as ranks:
        result = [*ranks.map(link, range(4))]
    assert len(set(map(str, result))) == 1
    linked = [path for path in (tmp_path / "links").rglob("*") if not path.is_symlink()]
    assert len(linked) == len(MADE.scenes) * (1 + len(CAMERAS))  # folders, without temporary ones


def changed(folder, to, table="scene", change=lambda rows: None):
    """Return a copy of the tables, one of them changed."""
    copy = to / f"{table}-{len([*to.iterdir()])}"
    shutil.copytree(folder / "v1.0-mini", copy / "v1.0-mini")
    path = copy / "v1.0-mini" / f"{table}.json"
    rows = json.loads(path.read_text())
    change(rows)
    path.write_text(json.dumps(rows))
    return copy


def test_invalid_datasets_are_refused(folder, nuscenes, layout, tmp_path, refused):
    copy = shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns("links"))
    sorted((copy / "sweeps" / "CAM_BACK").iterdir())[0].unlink()
    gone, cut = changed(folder, tmp_path), changed(folder, tmp_path)
    (gone / "v1.0-mini" / "sample.json").unlink()
    (cut / "v1.0-mini" / "sample.json").write_text("{")
    own = tmp_path / "own"
    nuscenes.link_pictures(own, ["scene-0002"])
    (own / "scene-0002" / "CAM_FRONT" / "own.jpg").write_bytes(b"")
    layout.write(tmp_path / "index_frame.json")
    odd = partial(changed, folder, tmp_path)
    refused("nuscenes", copy=copy, gone=gone, cut=cut, own=own, odd=odd)
    assert not (tmp_path / "links").exists()


def test_the_test_set_has_no_boxes(folder, tmp_path):
    copy = changed(folder, tmp_path)
    for name in ("category", "instance", "sample_annotation"):
        (copy / "v1.0-mini" / f"{name}.json").unlink()
    result = NuScenes.read(copy).metadata("scene-0001", moment_of(CAM_FRONT=0))
    assert result["sample_token"]
    assert result["annotations"] == []


@pytest.mark.parametrize("sync", ["nearest", "previous"])
@pytest.mark.parametrize("seed", range(6))
def test_offsets_drift_gaps_and_rolling_starts_are_as_a_plain_search_has_them(layout, sync, seed):
    """Random times, compared with a loop over all frames; decodes nothing."""
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
    near = partial(Alignment, sync=sync, tolerance_ms=60, on_missing="mask")
    for reference in ("clock", layout.cameras[1]):
        alignment = near(times=CameraTimes.of(drawn), reference=reference)
        for clip in CameraSet.open(layout, alignment).clips:
            times = drawn[clip.clip.name]
            expected = [
                [plain(times[camera], moment, sync, within=0.06) for camera in layout.cameras]
                for moment in times[reference]
            ]
            assert clip.frames.tolist() == expected
            assert clip.moment_seconds.tolist() == times[reference]


def times_with(layout, **changed):
    """Return times of all cameras at 12 Hz, some of the first clip changed."""
    full = {
        clip.name: {
            camera: [n / 12 for n in range(len(list((clip.folder / camera).iterdir())))]
            for camera in layout.cameras
        }
        for clip in layout.clips
    }
    full[layout.clips[0].name] |= changed
    return CameraTimes.of({clip: {c: t for c, t in of.items() if t} for clip, of in full.items()})


def test_times_that_do_not_fit_the_files_are_refused(layout, refused):
    beyond = [1e3] * 40
    far = times_with(layout, lidar=beyond)
    far.seconds[layout.clips[1].name]["lidar"] = np.array(beyond)

    def aligned(times, sync="nearest", **options):
        CameraSet.open(layout, Alignment(times=times, sync=sync, **options))

    refused("times_of_files", far=far, aligned=aligned)


def test_clocks_come_on_top_of_times(layout):
    late = {"CAM_BACK": CameraClock(offset_seconds=0.25, rate=2.0)}
    alignment = Alignment(
        sync="nearest", times=times_with(layout), clocks=late, on_missing="mask", tolerance_ms=1
    )
    clip = CameraSet.open(layout, alignment).clips[0]
    assert clip.moment_seconds[:3].tolist() == [0.25, 0.25 + 2 / 12, 0.25 + 4 / 12]
    assert clip.frames[:3].tolist() == [[0, 3, 3], [1, 5, 5], [2, 7, 7]]
