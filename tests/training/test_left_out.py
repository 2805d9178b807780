"""What cannot be used is told once: one warning of what is left out, or one error of all of it."""

import warnings

import pytest

from headrace import read_frames
from headrace.errors import LeftOutWarning, MediaError, OpenError
from headrace.sampling.clips import RandomClips
from headrace.training.cameras.datasets import CameraStreamDataset
from headrace.training.cameras.loader import CameraLoader
from headrace.training.cameras.windows.loader import CameraWindowLoader
from headrace.training.clip_loader import ClipLoader
from headrace.training.datasets import FrameDataset, VideoDataset
from headrace.training.loader import FrameLoader
from headrace.training.manifest.manifest import Manifest
from headrace.video.camera_layout import CameraLayout
from training.videos import SIZE

OPENS = {
    "FrameLoader": lambda given, store, **policy: FrameLoader(given, store=store, **policy),
    "ClipLoader": lambda given, store, **policy: ClipLoader(
        given, clips=RandomClips(num_frames=4), store=store, **policy
    ),
    "FrameDataset": lambda given, store, **policy: FrameDataset(given, store=store, **policy),
    "VideoDataset": lambda given, store, **policy: VideoDataset(
        given, clip_len=4, store=store, **policy
    ),
}
OPENS_CAMERAS = {
    "CameraLoader": lambda layout, store, bad: CameraLoader(
        layout, store=store, on_error="mask" if bad else "raise"
    ),
    "CameraWindowLoader": lambda layout, store, bad: CameraWindowLoader(
        layout, store=store, on_error="skip" if bad else "raise"
    ),
    "CameraStreamDataset": lambda layout, store, bad: CameraStreamDataset(
        layout, store=store, skip_bad=bad
    ),
}


@pytest.fixture
def mixed(videos, tmp_path):
    """Seven good videos, and four files that are none: bad-0.mp4 to bad-3.mp4."""
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


@pytest.mark.parametrize("opens", OPENS.values(), ids=OPENS)
def test_one_warning_counts_and_names_what_is_left_out(mixed, store, opens):
    with pytest.warns(LeftOutWarning) as given, opens(mixed, store, on_error="skip") as opened:
        assert len(opened.left_out) == 4
    [warning] = given
    assert str(warning.message) == (
        f"4 of 11 videos cannot be used and are left out: {mixed[0]}, {mixed[3]}, {mixed[4]} and "
        "1 more; `left_out` lists all of them, and why"
    )
    assert warning.filename == __file__


@pytest.mark.parametrize("opens", OPENS.values(), ids=OPENS)
def test_one_error_names_the_first_and_counts_the_rest(mixed, store, opens):
    with pytest.raises(OpenError) as raised:
        opens(mixed, store)
    assert raised.value.source == str(mixed[0])
    assert str(raised.value).startswith(f"cannot open {mixed[0]}")
    assert str(raised.value).endswith(
        f"; and 3 more of 11 videos cannot be used: {mixed[3]}, {mixed[4]}, {mixed[6]}"
    )


def test_rows_of_a_manifest_are_counted_too(mixed, store):
    rows = [{"path": str(path)} for path in mixed[:3]]
    rows += [{"path": str(mixed[1]), "start_seconds": 900 + k, "label": "a"} for k in range(2)]
    manifest = Manifest.of_rows([{"label": "b", "start_seconds": 0, **row} for row in rows])
    said = rf"3 of 3 videos and 5 rows cannot be used .*: {mixed[0]}, {mixed[1]}, {mixed[1]}; "
    with pytest.warns(LeftOutWarning, match=said):
        FrameLoader(manifest, size=SIZE, store=store, on_error="skip").close()
    good = Manifest.of_rows([{"label": "b", "start_seconds": 0, **row} for row in rows[1:]])
    with pytest.raises(MediaError, match="; and 1 more of 4 rows cannot be used: "):
        FrameLoader(good, size=SIZE, store=store)


@pytest.mark.parametrize("opens", OPENS_CAMERAS.values(), ids=OPENS_CAMERAS)
def test_clips_of_cameras_are_counted_and_named(layout, store, opens):
    with pytest.warns(LeftOutWarning, match=r"^4 of 5 clips .* and 1 more; `left_out`") as given:
        opens(layout, store, True).close()
    assert len(given) == 1
    with pytest.raises(OpenError, match=r"; and 3 more of 5 clips cannot be used: [^ ]+clip_1"):
        opens(layout, store, False)


def test_a_reader_warns_once_it_has_read(mixed, store):
    reader = read_frames(mixed, size=SIZE, on_error="skip")
    for _ in range(2):
        with pytest.warns(LeftOutWarning, match="^4 of 11 videos .* `losses` lists") as given:
            for _ in reader:
                pass
        assert len(given) == 1


def test_what_leaves_nothing_out_warns_of_nothing(videos, store):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FrameLoader(videos, store=store, on_error="skip").close()
        assert list(read_frames(videos[:1], size=SIZE, on_error="skip"))


@pytest.mark.parametrize(("rank", "warned"), [(0, 1), (1, 0)])
def test_of_many_ranks_the_first_one_warns(mixed, store, rank, warned):
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        FrameLoader(mixed, store=store, on_error="skip", rank=rank, num_replicas=2).close()
    assert len(given) == warned
