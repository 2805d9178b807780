"""What tests of training share: media that nobody changes, doors that open them, and pages."""

import re
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from headrace.decode.index_store import IndexStore
from headrace.errors import HeadraceError
from training.cameras.clips import (
    PlainCameras,
    copy_layout,
    layout_of,
    replace_camera,
    write_layout,
)
from training.videos import DOORS, OF_CAMERAS, SIZE, WINDOW, PlainFrames, write_videos

PAGES = Path(__file__).parent / "pages"


def pytest_addoption(parser):
    parser.addoption(
        "--update-refusals", action="store_true", help="Write the pages of tests/training anew."
    )


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return IndexStore(tmp_path_factory.mktemp("index"))


@pytest.fixture(scope="session")
def videos(tmp_path_factory):
    return write_videos(tmp_path_factory.mktemp("videos"))


@pytest.fixture(scope="session")
def plain(videos, store):
    return PlainFrames(videos, store)


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
def plain_cameras(layout):
    return PlainCameras(layout)


@pytest.fixture
def copied(folder, tmp_path):
    """A copy of the layout, to damage it."""
    return copy_layout(folder, tmp_path / "copied")


@pytest.fixture
def early(copied):
    """The same, but that camera `left` of clip a ends early."""
    replace_camera(copied.clips[0].file("left"), num_frames=12, size=(64, 96), gop=5)
    return copied


@pytest.fixture
def opens():
    """Return `opens(kind, *given, **options)`, which opens what is closed when the test ends."""
    with ExitStack() as stack:
        yield lambda kind, *given, **options: stack.enter_context(kind(*given, **options))


@pytest.fixture
def loader(opens, videos, layout, store):
    """Return `loader(door="frames", files=None, **options)`, which opens one of `DOORS`."""

    def open_door(door="frames", files=None, **options):
        kind, usual = DOORS[door]
        asked = {"store": store, **usual, **options}
        if "view" not in options:
            asked = {"size": SIZE, **asked}
        if door == "windows" and not {"num_moments", "delta_seconds"} & options.keys():
            asked = {**WINDOW, **asked}
        given = layout if door in OF_CAMERAS else videos
        return opens(kind, given if files is None else files, **asked)

    return open_door


@pytest.fixture
def one_gpu(monkeypatch):
    """PyTorch says that there is one; nothing is asked of it."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def refused(request, tmp_path_factory):
    """Return `refused(page, cases, call)`: holds all that is refused against a stored page.

    Each of `cases` is given to `call`, or called itself; the page has a line for each, with the
    kind of error and its whole message. `pytest tests/training --update-refusals` writes it anew.
    """
    folders = re.compile(rf"{re.escape(str(tmp_path_factory.getbasetemp()))}/[\w-]+")

    def check(page, cases, call=None):
        lines = []
        for name, case in cases.items():
            with pytest.raises(HeadraceError) as raised:
                case() if call is None else call(case)
            lines.append(f"{name}\n    {type(raised.value).__name__}: {raised.value}")
            assert "\n" not in str(raised.value)
        text = folders.sub("<folder>", "\n".join(lines)) + "\n"
        path = PAGES / f"{page}.txt"
        if request.config.getoption("--update-refusals"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
        assert text.splitlines() == path.read_text("utf-8").splitlines()

    return check
