"""What is wrong with a dataset is found, each problem by its kind, and nothing else."""

from itertools import product

import pytest

from headrace.errors import ConfigError
from headrace.loaders.lerobot.dataset_check import check_dataset
from loaders.lerobot.drawn import CAMERAS, DRAWN, Drawn
from loaders.lerobot.faults import FAULTS, OF_LINES

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
