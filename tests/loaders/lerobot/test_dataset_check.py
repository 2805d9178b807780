"""What is wrong with a dataset is found, each problem by its kind, and nothing else."""

import shutil

import pytest

from headrace.errors import ConfigError
from headrace.loaders.lerobot.dataset_check import check_dataset
from loaders.lerobot.drawn import CAMERAS, DRAWN, Drawn, draw
from loaders.lerobot.faults import FAULTS, OF_LINES, with_fault

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
def test_a_fault_is_found(problems, folders, tmp_path, fault):
    sound = folders["v2.1" if fault in OF_LINES else "v3.0"]
    bad = with_fault(shutil.copytree(sound, tmp_path / "bad"), fault)
    assert problems(bad) == OF_FAULTS[fault]


def test_other_faults_leave_nothing_to_check(problems, folders, tmp_path):
    """They are errors, as of a loader."""
    others = [*FAULTS.keys() - OF_FAULTS.keys(), *OF_LINES.keys() - OF_FAULTS.keys()]
    assert others
    for number, fault in enumerate(others):
        sound = folders["v2.1" if fault in OF_LINES else "v3.0"]
        bad = with_fault(shutil.copytree(sound, tmp_path / f"bad-{number}"), fault)
        with pytest.raises(ConfigError):
            problems(bad)


@pytest.mark.parametrize("version", DRAWN)
@pytest.mark.parametrize("what", OF_VIDEOS)
def test_frames_are_counted_of_each_episode(problems, tmp_path, version, what):
    """Of a file of several episodes, too."""
    if (version, what) == ("v2.1", "no frame"):
        return  # a file of no frames is none
    drawn, expected = OF_VIDEOS[what]
    assert problems(draw(tmp_path / "set", Drawn(version=version, **drawn))) == expected


def test_episodes_that_start_between_keyframes_are_found(problems, tmp_path):
    """Of one file for each episode, all start with one."""
    of_both = [("keyframe", 1), ("keyframe", 3)] * 2
    assert problems(draw(tmp_path / "new", Drawn(keyframes=False))) == of_both
    assert problems(draw(tmp_path / "old", Drawn(keyframes=False, version="v2.1"))) == []


@pytest.mark.parametrize("version", DRAWN)
def test_a_sound_dataset_has_no_problem_and_each_video_is_shown(store, folders, version):
    shown = list[tuple[str, int, int]]()
    check = check_dataset(
        folders[version], index_store=store, on_progress=lambda *step: shown.append(step)
    )
    assert check.problems == ()
    files = {"v2.1": 8, "v3.0": 4}[version]
    assert [step[1:] for step in shown] == [(k + 1, files) for k in range(files)]


def test_the_tolerance_is_that_of_the_caller(problems, folders, tmp_path):
    bad = with_fault(shutil.copytree(folders["v3.0"], tmp_path / "bad"), "timestamps off")
    assert problems(bad, tolerance=0.06) == []
    assert problems(bad, tolerance=0.04) == [("off", 1), ("off", 1)]
    with pytest.raises(ConfigError, match="tolerance must be a number >= 0, got -1"):
        problems(bad, tolerance=-1)
