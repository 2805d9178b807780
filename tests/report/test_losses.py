"""What was lost is counted by kind, each with its noun, and named with its own file."""

from collections.abc import Sequence

import pytest

from headrace.profiling.inputs import LostFrame
from headrace.profiling.session import Session
from headrace.report.html import render_html
from headrace.report.losses import lost_rows, lost_words
from headrace.report.text import render_text
from report.recorded import SOURCE, record


def lost(frames: int, videos: int, **changes: object) -> Session:
    found = [LostFrame(index=2 * n, pts_seconds=None, cause="bad slice") for n in range(frames)]
    found += [
        LostFrame(input=1 + n, index=None, pts_seconds=None, cause="?") for n in range(videos)
    ]
    paths = ["a.mp4", *(f"bad{n}.mp4" for n in range(videos))]
    inputs = tuple(SOURCE.model_copy(update={"path": path}) for path in paths)
    return record(steps=0, lost=tuple(found), inputs=inputs).model_copy(update=changes)


@pytest.mark.parametrize(
    ("frames", "videos", "words"),
    [
        (62, 56, "62 frames and 56 videos"),
        (1, 1, "1 frame and 1 video"),
        (0, 2, "2 videos"),
        (7, 0, "7 frames"),
    ],
)
def test_what_is_lost_is_counted_by_kind(frames: int, videos: int, words: str) -> None:
    session = lost(frames, videos)
    assert lost_words(session) == words
    assert f"Damaged: {words}\n" in render_text(session)
    assert f"Damaged: {words}<" in render_html(session)


def test_a_whole_file_of_a_run_of_pictures_is_a_picture() -> None:
    assert lost_words(lost(0, 3, inputs=())) == "3 pictures"


def test_what_is_not_listed_is_counted_by_kind() -> None:
    assert "  and 52 videos more, listed in the session\n" in render_text(lost(62, 56))


def test_a_loss_is_named_with_its_own_file() -> None:
    rows = [row.what for row in lost_rows(lost(1, 2))]
    assert rows == ["frame 0 of a.mp4", "the whole video bad0.mp4", "the whole video bad1.mp4"]
    assert "the whole video bad1.mp4" in render_text(lost(1, 2))


def test_the_page_says_which_video_could_not_be_opened() -> None:
    unopened = SOURCE.model_copy(update={"path": "bad.mp4", "codec": "", "height": 0, "width": 0})
    page = render_html(record(steps=12, inputs=(SOURCE, unopened)))
    assert "not known: it could not be opened" in page
    assert "in the video" in page


@pytest.mark.parametrize(
    ("indexes", "what"),
    [
        ([7], "frame 7"),
        ([7, 8, 9], "frames 7 to 9"),
        ([7, 8, 50], "frames 7 to 8, 50"),
        (range(0, 100, 10), "10 frames from 0 to 90"),
    ],
)
def test_frames_of_one_cause_are_one_row(indexes: Sequence[int], what: str) -> None:
    frames = [LostFrame(index=index, pts_seconds=None, cause="crashed") for index in indexes]
    (row,) = lost_rows(lost(0, 0), frames)
    assert (row.what, row.frames, row.cause) == (what, len(indexes), "crashed")


def test_another_cause_another_video_and_whole_videos_have_rows_of_their_own() -> None:
    found = [
        *(LostFrame(index=None, pts_seconds=None, cause="crashed") for _ in range(2)),
        *(LostFrame(index=index, pts_seconds=None, cause="crashed") for index in (1, 2)),
        LostFrame(index=3, pts_seconds=None, cause="damaged"),
        LostFrame(input=1, index=4, pts_seconds=None, cause="damaged"),
    ]
    assert [row.what for row in lost_rows(lost(0, 1), found)] == [
        *["the whole video a.mp4"] * 2,
        *("frames 1 to 2 of a.mp4", "frame 3 of a.mp4", "frame 4 of bad0.mp4"),
    ]
