"""Unusable videos are reported once: in one warning of skipped ones, or in one error."""

import warnings
from pathlib import Path

import pytest

from headrace import CameraLayout, Manifest, OpenError, SkippedVideosWarning, read_frames
from loaders.videos import SIZE

VIDEOS = ["frames", "clips", "frame items", "clip items"]
CLIPS = {
    "cameras": {"on_error": "mask"},
    "windows": {"on_error": "skip"},
    "camera items": {"skip_bad": True},
}


@pytest.fixture
def mixed(videos, tmp_path):
    """Seven good videos, and four text files: bad-0.mp4 to bad-3.mp4."""
    bad = [tmp_path / f"bad-{number}.mp4" for number in range(4)]
    for each in bad:
        each.write_text("this is no video")
    return [bad[0], videos[0], videos[1], bad[1], bad[2], videos[0], bad[3], *videos[:2] * 2]


@pytest.fixture
def layout(videos, tmp_path):
    """One good clip of one camera, and four whose file is no video."""
    for number in range(5):
        clip = tmp_path / f"clip_{number}"
        clip.mkdir()
        (clip / "front.mp4").write_bytes(videos[0].read_bytes() if number == 2 else b"no video")
    return CameraLayout.of_folders([tmp_path], lambda file: 40)


@pytest.mark.parametrize("door", VIDEOS)
def test_one_warning_or_error_counts_and_names_the_skipped_videos(mixed, loader, door):
    with pytest.warns(SkippedVideosWarning) as given:
        opened = loader(door, mixed, on_error="skip")
    assert len(opened.skipped_videos) == 4
    [warning] = given
    assert str(warning.message) == (
        f"4 of 11 videos cannot be used and are skipped: {mixed[0]}, {mixed[3]}, {mixed[4]} and "
        "1 more; `skipped_videos` lists all of them, with reasons"
    )
    assert Path(warning.filename).name == "conftest.py"  # which called the loader
    with pytest.raises(OpenError) as raised:
        loader(door, mixed)
    assert raised.value.source == str(mixed[0])
    assert str(raised.value).startswith(f"cannot open {mixed[0]}")
    assert str(raised.value).endswith(
        f"; and 3 more of 11 videos cannot be used: {mixed[3]}, {mixed[4]}, {mixed[6]}"
    )


def test_rows_of_a_manifest_are_counted_too(mixed, loader, refused):
    rows = [{"path": str(path)} for path in mixed[:3]]
    rows += [{"path": str(mixed[1]), "start_seconds": 900 + k, "label": "a"} for k in range(2)]
    rows = [{"label": "b", "start_seconds": 0, **row} for row in rows]
    said = rf"1 of 3 videos and 2 of 5 rows cannot be used .*: {mixed[0]}, {mixed[1]}, {mixed[1]}; "
    with pytest.warns(SkippedVideosWarning, match=said):
        loader(files=Manifest.of_rows(rows), on_error="skip")
    refused("skipped_videos", good=Manifest.of_rows(rows[1:]))


@pytest.mark.parametrize("door", CLIPS)
def test_clips_of_cameras_are_counted_and_named(layout, loader, door):
    with pytest.warns(
        SkippedVideosWarning, match=r"^4 of 5 clips .* and 1 more; `skipped_videos`"
    ) as given:
        loader(door, layout, **CLIPS[door])
    assert len(given) == 1
    with pytest.raises(OpenError, match=r"; and 3 more of 5 clips cannot be used: [^ ]+clip_1"):
        loader(door, layout)


def test_a_reader_warns_once_it_has_read(mixed, store):
    reader = read_frames(mixed, size=SIZE, on_error="skip")
    for _ in range(2):
        with pytest.warns(SkippedVideosWarning, match="^4 of 11 videos .* `losses` lists") as given:
            for _ in reader:
                pass
        assert len(given) == 1


def test_nothing_skipped_warns_of_nothing_and_only_the_first_rank_warns(videos, loader, mixed):
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        loader(on_error="skip")
        assert list(read_frames(videos[:1], size=SIZE, on_error="skip"))
        loader(files=mixed, on_error="skip", rank=1, num_replicas=2)
        assert len(given) == 0
        loader(files=mixed, on_error="skip", rank=0, num_replicas=2)
        assert len(given) == 1
