"""Faults of a dataset are found by kind; loaders refuse them in words, or skip and count them."""

import shutil
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace as SimpleNamespace

import pytest
from torch.utils.data import DataLoader

from headrace import DecodeError, SkippedVideosWarning
from headrace.errors import ConfigError
from headrace.loaders.lerobot.dataset_check import check_dataset
from loaders.lerobot.drawn import CAMERAS, DRAWN, Drawn, draw, item_of, read_item
from loaders.lerobot.faults import FAULTS, OF_LINES, VIDEO
from loaders.lerobot.test_items import assert_equal, read
from loaders.videos import samples

pytestmark = pytest.mark.filterwarnings("ignore::headrace.errors.SkippedVideosWarning")

TOP, WRIST = CAMERAS
OF_FAULTS = {
    "no rows": [("missing", 0, 1, 2)],
    "no data": [("missing", 0, 1, 2), ("missing", 3)],
    "an episode's rows missing": [("missing", 2)],
    "rows cut off": [("unreadable", 0, 1, 2)],
    "column missing": [("unreadable", 0, 1, 2)],
    "a row less": [("rows", 0), ("rows", 0)],  # by number, and as counted
    "rows of an unknown episode": [("rows",), ("rows", 2)],
    "a value missing": [("values",)],
    "a subtask missing": [("values",)],
    "a value of a vector missing": [("values",)],
    "rows of another length": [("values",)],
    "rows of another shape": [("values",)],
    "an unknown task": [("rows", 1)],
    "one task": [("rows", 1)],
    "a task of a large number": [("rows", 0)],
    "frames counted wrong": [("rows", 1)],
    "more frames by the metadata": [("rows",)],
    "a video missing": [("missing", 2, 3)],
    "a video of text": [("unreadable", 2, 3)],
    "a video cut short": [("damage", 2, 3), ("short", 2), ("short", 3)],
    "timestamps off": [("off", 1), ("off", 1)],  # of both cameras
    "a timestamp that is none": [("off", 1), ("off", 1)],
    "no cameras": [],
}
"""Fault → kind and episodes of each problem."""
OF_VIDEOS = {
    "a shorter video": ({"frames": {(WRIST, 2): 6}}, [("short", 2)]),
    "no frame": ({"frames": {(WRIST, 1): 0}}, [("short", 1)]),
    "one longer": ({"frames": {(WRIST, 0): 9}}, [("unequal", 0)]),
    "both longer": ({"frames": {(TOP, 0): 9, (WRIST, 0): 9}}, []),
}
"""What is drawn → the same."""


@pytest.fixture
def problems(store):
    """Return `problems(folder)`: kind and episodes of each problem."""

    def found(folder, **options):
        check = check_dataset(folder, index_store=store, **options)
        return [(problem.kind, *problem.episodes) for problem in check.problems]

    return found


@pytest.mark.parametrize("fault", OF_FAULTS)
def test_a_fault_is_found(problems, bad, fault):
    assert problems(bad(fault)) == OF_FAULTS[fault]


def test_other_faults_leave_nothing_to_check(problems, bad):
    """They are errors, as of a loader."""
    others = (FAULTS | OF_LINES).keys() - OF_FAULTS.keys()
    assert others
    for fault in others:
        with pytest.raises(ConfigError):
            problems(bad(fault))


@pytest.mark.parametrize(
    ("version", "what"),  # of v2.1, a file of no frames is none
    [pair for pair in product(DRAWN, OF_VIDEOS) if pair != ("v2.1", "no frame")],
)
def test_frames_are_counted_of_each_episode(problems, folder_of, version, what):
    """Of a file of several episodes, too."""
    drawn, expected = OF_VIDEOS[what]
    assert problems(folder_of(Drawn(version=version, **drawn))) == expected


def test_episodes_that_start_between_keyframes_are_found(problems, folder_of):
    """Of one file for each episode, all start with one."""
    of_both = [("keyframe", 1), ("keyframe", 3)] * 2
    assert problems(folder_of(Drawn(keyframes=False))) == of_both
    assert problems(folder_of(Drawn(keyframes=False, version="v2.1"))) == []


@pytest.mark.parametrize("version", DRAWN)
def test_a_sound_dataset_has_no_problem_and_each_video_is_shown(store, folders, version):
    shown = list[tuple[str, int, int]]()
    check = check_dataset(
        folders[version], index_store=store, on_progress=lambda *step: shown.append(step)
    )
    assert check.problems == ()
    files = {"v2.1": 8, "v3.0": 4}[version]
    assert [step[1:] for step in shown] == [(k + 1, files) for k in range(files)]


def test_the_tolerance_is_that_of_the_caller(problems, bad):
    folder = bad("timestamps off")
    assert problems(folder, tolerance=0.06) == []
    assert problems(folder, tolerance=0.04) == [("off", 1), ("off", 1)]
    with pytest.raises(ConfigError, match="tolerance must be a number >= 0, got -1"):
        problems(folder, tolerance=-1)


PAGE = Path(__file__).parents[1] / "pages" / "lerobot.txt"


def first(loader):
    return next(iter(loader))


def test_a_dataset_with_a_fault_is_refused(lerobot, bad, refused):
    refused("lerobot", opened=lambda fault: lerobot(bad(fault)))
    page = PAGE.read_text("utf-8")
    assert [name for name in [*FAULTS, *OF_LINES] if f'opened("{name}")' not in page] == [
        *("frames counted wrong", "more frames by the metadata")  # items do not need these
    ]


def test_arguments_are_refused(tmp_path, refused):
    sizes, wider = (
        draw(tmp_path / name, Drawn(lengths=(3, 3), sizes={TOP: size}, version="v2.1"))
        for name, size in (("sizes", (48, 64)), ("wider", (64, 96)))
    )
    video = DRAWN["v2.1"].video_file(TOP, 1)[0]
    shutil.copy(wider / video, sizes / video)
    refused("lerobot_arguments", sizes=sizes)


SHORT = Drawn(frames={(WRIST, 2): 6})
"""Three frames of nine are missing; in the file another episode follows."""


@pytest.mark.parametrize("version", DRAWN)
def test_a_video_that_ends_before_its_rows_is_an_error_and_no_frame_of_another_episode(
    lerobot, frames_of, folder_of, version
):
    folder = folder_of(drawn := replace(SHORT, version=version))
    loader, items = lerobot(folder, batch_size=1), frames_of(folder)
    with pytest.raises(DecodeError) as of_loader:
        assert_equal(read(loader), [])
    assert loader.state_dict()["slot"] == 18
    with pytest.raises(DecodeError) as of_item:
        items[18]
    file = folder / drawn.video_file(WRIST, 2)[0]
    assert str(of_loader.value) == str(of_item.value)
    assert str(of_item.value) == (
        f"episode 2, frame 6 of {folder}: the nearest frame of the episode in {file} is 0.1 s off "
        "its timestamp, and tolerance_s is 0.0001; leave out the episode, or see headrace doctor "
        f"{folder}"
    )
    assert of_loader.value.source == str(file)


# What is left where it is skipped.
SKIPPED = {
    "timestamps off": lambda episode, frame: (episode, frame) not in [(1, 1), (1, 2)],
    "a timestamp that is none": lambda episode, frame: (episode, frame) != (1, 2),
    "a video missing": lambda episode, frame: episode < 2,
    "a video of text": lambda episode, frame: episode < 2,
}


@pytest.mark.parametrize("fault", SKIPPED)
def test_items_that_cannot_be_are_skipped_counted_and_warned_of_once_or_replaced_by_others(
    lerobot, frames_of, bad, fault
):
    folder, rows = bad(fault), DRAWN["v3.0"].rows
    with pytest.warns(SkippedVideosWarning) as given:
        loader = lerobot(folder, on_error="skip")
    kept = [row for row in rows if SKIPPED[fault](*row)]
    found, expected = read(loader), [item_of(DRAWN["v3.0"], *row) for row in kept]
    for item in (*found, *expected):
        del item["timestamp"]  # which has changed
    assert_equal(found, expected)
    assert loader.items_skipped == 27 - len(expected)
    assert len(loader.skipped_videos) == ("video" in fault)
    [warning] = given
    assert str(warning.message) == (
        f"{loader.items_skipped} of 27 items of {folder} are skipped: a frame is off its "
        "timestamp, or in a file that cannot be read; `skipped_videos` lists these files, headrace "
        "doctor all problems"
    )
    assert warning.filename.endswith("conftest.py")  # which opened the loader
    batches = DataLoader(frames_of(folder, on_error="skip"), batch_size=9)
    others = [*samples(batches, "episode_index", "frame_index")]
    assert {*others} <= {*kept}
    assert [place for place, row in zip(others, rows, strict=True) if place == row] == kept


def test_a_window_with_a_frame_that_is_off_is_skipped_too(lerobot, bad):
    with pytest.warns(SkippedVideosWarning):
        loader = lerobot(bad("timestamps off"), on_error="skip", delta_timestamps={TOP: [-0.1, 0]})
    assert {(1, 1), (1, 2), (1, 3)} == {*DRAWN["v3.0"].rows} - {
        (item["episode_index"], item["frame_index"]) for item in read(loader)
    }


def test_frames_that_cannot_be_decoded_are_replaced_by_other_items(lerobot, frames_of, bad):
    folder, drawn = bad("a video cut short"), DRAWN["v3.0"]
    loader, items = lerobot(folder, on_error="skip"), frames_of(folder, on_error="skip")
    of_loader, of_items = read(loader), [read_item(items[k]) for k in range(27)]
    # The file has packets of so many frames, and of the last of them not all bytes.
    assert (len(of_loader), len(of_items), loader.items_skipped) == (17, 27, 10)
    for found in (of_loader, of_items):
        assert_equal(found, [item_of(drawn, i["episode_index"], i["frame_index"]) for i in found])
        assert len({item["index"] for item in found}) == 16
    assert loader.statistics.samples_substituted == 1


def test_a_damaged_frame_is_shown_as_it_is(lerobot, bad):
    """It is one of the 17 that the file has packets of."""
    loader = lerobot(bad("a video cut short"), on_error="conceal")
    indices = [index for batch in loader for index in batch["index"].tolist()]
    assert indices == [*range(17)]
    assert loader.statistics.samples_substituted == 0


def test_a_dataset_of_which_no_item_is_left_is_refused(lerobot, frames_of, bad, refused):
    """A camera without any file; all frames off."""
    folder = bad("a video missing")
    (folder / VIDEO.replace("001", "000")).unlink()

    opened, items = (partial(door, folder, on_error="skip") for door in (lerobot, frames_of))
    refused("lerobot_nothing_left", opened=opened, items=items)
