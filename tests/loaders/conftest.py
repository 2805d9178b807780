"""Shared fixtures: read-only media, doors that open loaders and datasets, and pages of errors."""

import ast
import csv
import shutil
from contextlib import ExitStack, suppress
from functools import partial
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import headrace
from headrace import CameraStreamSampler, IndexStore, Manifest
from headrace.loaders import frame_memory
from headrace.testing.damage import damage_packets
from loaders import videos as video_kit
from loaders.cameras import clips as camera_kit
from loaders.cameras.clips import PlainCameras, at_rate, layout_of, write_cameras, write_layout
from loaders.videos import DOORS, KEPT, OF_CAMERAS, SEGMENTS, SIZE, PlainFrames, write_videos
from tests.kit.pages import calls_of, check_message

PAGES = Path(__file__).parent / "pages"
NAMES = {
    **vars(camera_kit),
    **vars(video_kit),
    **{name: getattr(headrace, name) for name in headrace.__all__},
    **{"headrace": headrace, "np": np, "torch": torch, "Path": Path, "inf": inf, "nan": nan},
}
"""Names that every call of a page may use."""


def pytest_itemcollected(item):
    """Workers of a DataLoader may be forked beside threads: they use none of them."""
    item.add_marker(pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"))


@pytest.fixture
def whole_gops_at_once(monkeypatch):
    """The first batch of a small set stores GOPs too."""
    monkeypatch.setattr(frame_memory, "_UNSTORED_BATCHES", 0)


@pytest.fixture
def disk(tmp_path):
    return tmp_path / "spill"


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return IndexStore(tmp_path_factory.mktemp("index"))


@pytest.fixture(scope="session")
def videos(tmp_path_factory):
    return write_videos(tmp_path_factory.mktemp("videos"))


@pytest.fixture(scope="session")
def plain(videos):
    return PlainFrames(videos)


@pytest.fixture(scope="session")
def manifest(videos, tmp_path_factory):
    """The rows of `SEGMENTS`, as read from a CSV."""
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["path", "start_seconds", "end_seconds", "label", "weight", "group"])
        out.writerows([videos[video], *rest] for video, *rest in SEGMENTS)
    return Manifest.read(path)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Five clips of three cameras."""
    folder = tmp_path_factory.mktemp("cameras") / "videos"
    write_layout(folder)
    return folder


@pytest.fixture(scope="session")
def layout(folder):
    return layout_of(folder)


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """Three short clips of three cameras."""
    return write_layout(tmp_path_factory.mktemp("small"), {"a": 6, "b": 4, "c": 9})


@pytest.fixture(scope="session")
def two_rates(tmp_path_factory):
    """One second of a camera at 30 frames/s, and of another at 10."""
    cameras = {"a_fast": at_rate(30), "b_slow": at_rate(10)}
    return write_cameras(tmp_path_factory.mktemp("two_rates"), {"clip": cameras}, 30)


@pytest.fixture(scope="session")
def plain_cameras(layout):
    return PlainCameras(layout)


@pytest.fixture
def copied(folder, tmp_path):
    """A copy of the layout, to damage it."""
    return layout_of(shutil.copytree(folder, tmp_path / "copied"))


@pytest.fixture
def damaged_layout(folder, copied):
    """A layout with camera `front` of clip c damaged from frame 13 on."""
    damage_packets(folder / "c/front.mp4", copied.clips[2].file("front"), ordinals=[13])
    return copied


@pytest.fixture
def early(copied):
    """The same, with camera `left` of clip a ending early."""
    camera_kit.replace_camera(copied.clips[0].file("left"), num_frames=12, size=(64, 96), gop=5)
    return copied


@pytest.fixture
def opens():
    """Return `opens(kind, *given, **options)`: opens an object and closes it after the test."""
    with ExitStack() as stack:
        yield lambda kind, *given, **options: stack.enter_context(kind(*given, **options))


@pytest.fixture
def opener(request, opens, store):
    """Return `opener(door="frames", files=None, **options)`, which opens one of `DOORS`."""

    def open_door(door="frames", files=None, **options):
        kind, usual = DOORS[door]
        asked = {"index_store": store, **usual, **options}
        if "view" not in options:
            asked = {"size": SIZE, **asked}
        if door == "windows" and not {"num_moments", "delta_seconds"} & options.keys():
            asked = {**camera_kit.WINDOW, **asked}
        if files is None:
            files = request.getfixturevalue("layout" if door in OF_CAMERAS else "videos")
        return opens(kind, files, **asked)

    return open_door


@pytest.fixture
def loader(opener):
    """The same; a file with tests of one door may narrow it."""
    return opener


@pytest.fixture
def frames(opener):
    """The frames as items for a stock DataLoader."""
    return opener("frame items")


@pytest.fixture
def kept_loader(opener):
    """The same, with frames that stay on the decoding device, here the CPU."""
    usual = {"frames": {"batch_size": 9}, "cameras": {"group_num": 4}}

    def open_door(door="frames", files=None, **options):
        return opener(door, files, **{"decoding": KEPT, **usual.get(door, {}), **options})

    return open_door


@pytest.fixture
def cameras(opener):
    """Return `cameras(layout=None, **options)`, which opens a `CameraLoader`."""
    return partial(opener, "cameras")


@pytest.fixture
def windows(opener):
    return partial(opener, "windows")


@pytest.fixture
def dataset(opener):
    """The cameras as items for a stock DataLoader."""
    return opener("camera items")


@pytest.fixture
def by_stock(opener):
    """Return `by_stock(files, workers, order, **options)`: items of cameras, and their batches."""

    def batches(files=None, workers=0, order=None, **options):
        items = opener("camera items", files, **options)
        asked = {"group_num": 1, "num_workers": workers, "interleaved": True, **(order or {})}
        sampler = CameraStreamSampler(items, **asked)
        return items, DataLoader(items, batch_sampler=sampler, num_workers=workers)

    return batches


@pytest.fixture
def one_gpu(monkeypatch):
    """PyTorch reports one GPU, which is not used."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def refused(request):
    """Return `refused(name, **names)`: compares the errors of a page's calls with the page.

    The page has each call behind `>>>`, and below it the kind of error and its whole message, where
    `...` stands for any text, and `<folder>` for one of the test. Calls use names of headrace, of
    the module of the test, fixtures, and `names`.
    """

    def check(name, **names):
        for call, said in calls_of(PAGES / f"{name}.txt"):
            known = {**NAMES, **vars(request.module), **names}
            nodes = ast.walk(ast.parse(call, mode="eval"))
            used = {node.id for node in nodes if isinstance(node, ast.Name)} - names.keys()
            for fixture in used:
                with suppress(pytest.FixtureLookupError):
                    known[fixture] = request.getfixturevalue(fixture)
            assert "\n" not in str(check_message(call, said, known))

    return check
