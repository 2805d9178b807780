"""Clips are drawn and written as described, the same each time."""

import os
from contextlib import contextmanager
from fractions import Fraction

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.testing.synth import read_bars, read_number, write_clip, write_streams
from headrace.testing.synth_audio import write_audio
from headrace.testing.synth_clip import Look, SynthClip, Timing
from headrace.testing.synth_encoders import can_encode
from headrace.testing.synth_pixels import BARS, Colour, draw_picture, tags_of, to_ycbcr
from headrace.video.frame_barcode import MIN_SIDE, NUMBERS
from media import read_frames, rgb


def test_the_suffix_is_the_container(tmp_path):
    clip = SynthClip(num_frames=2, container="mkv")
    assert write_clip(tmp_path / "v1.5", clip) == tmp_path / "v1.5.mkv"
    assert write_clip(tmp_path / "b.mkv", clip) == tmp_path / "b.mkv"


def test_an_encoder_does_not_leave_a_real_time_thread(tmp_path):
    """SVT-AV1 makes the thread that opens it one if permitted, as for root."""
    write_clip(tmp_path / "av1", SynthClip(codec="av1", container="mp4", num_frames=2))
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_a_file_holds_several_streams(container, tmp_path):
    clips = [
        SynthClip(container=container, num_frames=20, b_frames=2),
        SynthClip(container=container, num_frames=7, size=(64, 64), frame_rate=Fraction(10)),
    ]
    path = write_streams(tmp_path / "two", clips)
    for stream, clip in enumerate(clips):
        frames = read_frames(path, stream)
        assert [read_number(rgb(frame)) for frame in frames] == list(range(clip.num_frames))
        assert (frames[0].height, frames[0].width) == clip.size


def test_a_codec_that_the_container_lacks_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="does not support"):
        write_clip(tmp_path / "clip", SynthClip(codec="vp9", container="h264"))


def test_a_start_between_frames_is_kept(tmp_path):
    clip = SynthClip(num_frames=3, timing=Timing(start_seconds=Fraction(1, 100)))
    frames = read_frames(write_clip(tmp_path / "clip", clip))
    assert [f.pts * f.time_base for f in frames] == list(clip.pts_seconds)


def test_odd_sizes_are_allowed_without_chroma_subsampling():
    assert SynthClip(size=(75, 53), look=Look(pixel_format="yuv444p")).size == (75, 53)


UNEVEN = Timing(start_seconds=Fraction(2), durations_seconds=(1, 5))


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"num_frames": 3, "frame_rate": Fraction(30_000, 1001)}, (0, "1001/30000", "2002/30000")),
        ({"timing": UNEVEN, "num_frames": 4}, (2, 3, 8, 9)),
    ],
)
def test_times_follow_the_frame_rate_or_cyclic_durations(fields, seconds):
    assert SynthClip(**fields).pts_seconds == tuple(map(Fraction, seconds))


def test_preroll_counts_up_to_the_first_frame_shown():
    clip = SynthClip(num_frames=2, frame_rate=Fraction(10), timing=Timing(preroll=2))
    numbers = [(p.number, p.seconds * 10) for p in clip.pictures]
    assert numbers == [(65_534, -2), (65_535, -1), (0, 0), (1, 1)]


def test_hidden_frames_are_between_shown_ones():
    clip = SynthClip(codec="vp8", container="webm", structure="hidden_packets", num_frames=8)
    numbers = [(p.number, p.is_hidden) for p in clip.pictures]
    assert numbers[4:7] == [(4, False), (7, True), (5, False)]
    assert sum(p.is_hidden for p in clip.pictures) == 1


@pytest.mark.parametrize(
    ("matrix", "full_range", "rgb", "expected"),
    [
        ("bt601", False, (255, 255, 255), (235, 128, 128)),
        ("bt601", False, (0, 0, 0), (16, 128, 128)),
        ("bt601", False, (255, 0, 0), (81, 90, 240)),
        ("bt601", False, (0, 255, 0), (145, 54, 34)),
        ("bt601", False, (0, 0, 255), (41, 240, 110)),
        ("bt709", False, (255, 0, 0), (63, 102, 240)),
        ("bt709", False, (0, 255, 0), (173, 42, 26)),
        ("bt709", False, (0, 0, 255), (32, 240, 118)),
        ("bt709", True, (255, 255, 255), (255, 128, 128)),
        ("bt709", True, (0, 0, 0), (0, 128, 128)),
        ("bt709", True, (0, 255, 0), (182, 30, 12)),
        ("bt2020", False, (255, 0, 0), (74, 97, 240)),
        ("bt2020", False, (0, 0, 255), (29, 240, 119)),
    ],
)
def test_colours_have_the_levels_of_the_standard(matrix, full_range, rgb, expected):
    picture = np.full((2, 4, 3), rgb, np.uint8)
    planes = to_ycbcr(picture, Colour(matrix=matrix, full_range=full_range))
    assert planes.shape == (3, 2, 4)
    assert tuple(planes[:, 0, 0]) == expected


def test_tags_are_the_code_points_of_h273():
    assert tags_of(Colour(matrix="bt601")) == (6, 6, 6, 1)
    assert tags_of(Colour(matrix="bt709", full_range=True)) == (1, 1, 1, 2)
    assert tags_of(Colour(matrix="bt2020")) == (9, 9, 14, 1)


def test_audio_has_no_video_stream(tmp_path):
    path = write_audio(tmp_path / "tone")
    assert path.name == "tone.mp3"
    with av.open(str(path)) as container:
        assert [stream.type for stream in container.streams] == ["audio"]
        samples = np.concatenate([f.to_ndarray()[0] for f in container.decode(audio=0)])
    assert len(samples) > 40_000
    assert samples.std() > 0.1


def test_cover_art_is_a_video_stream_of_one_attached_picture(tmp_path):
    with av.open(str(write_audio(tmp_path / "song", cover_art=True))) as container:
        (video,) = container.streams.video
        assert video.disposition == av.stream.Disposition.attached_pic
        assert len(list(container.decode(video))) == 1
        assert len(container.streams.audio) == 1


THEORA = SynthClip(codec="theora", container="ogg", num_frames=20)


def test_without_ffmpeg_only_pyavs_encoders_are_used(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "")
    assert can_encode(SynthClip())
    assert not can_encode(THEORA)
    with pytest.raises(ValueError, match="theora needs the program ffmpeg, which is not installed"):
        write_clip(tmp_path / "clip", THEORA)


@pytest.mark.parametrize("clip", [THEORA] if can_encode(THEORA) else [])
def test_frames_carry_their_numbers(clip, tmp_path):
    path = write_clip(tmp_path / "clip", clip)
    assert [read_number(rgb(frame)) for frame in read_frames(path)] == list(range(20))


NUMBER = st.integers(0, NUMBERS - 1)
SIZE = st.tuples(st.integers(MIN_SIDE, 200), st.integers(MIN_SIDE, 200))


def shrunk(picture, size):
    """Scale by the nearest pixel."""
    rows = (np.arange(size[0]) + 0.5) * picture.shape[0] // size[0]
    columns = (np.arange(size[1]) + 0.5) * picture.shape[1] // size[1]
    return picture[rows.astype(int)][:, columns.astype(int)]


@given(number=st.integers(-NUMBERS, 2 * NUMBERS), size=SIZE, bars=st.booleans())
def test_the_drawn_number_is_read_also_scaled_down_and_wraps(number, size, bars):
    assert read_number(draw_picture(number, size, bars=bars)) == number % NUMBERS
    assert read_number(draw_picture(number, (96, 128))) == number % NUMBERS
    assert read_number(shrunk(draw_picture(number, (270, 480)), (64, 64))) == number % NUMBERS


@contextmanager
def no_number():
    with pytest.raises(ValueError, match="no readable number"):
        yield


@given(number=NUMBER)
def test_a_mirrored_or_rotated_frame_has_no_number(number):
    picture = draw_picture(number, (96, 96))
    for turns in range(4):
        for turned in (np.rot90(picture, turns), np.rot90(picture[:, ::-1], turns)):
            if not np.array_equal(turned, picture):
                with no_number():
                    read_number(turned)


@given(numbers=st.lists(NUMBER, min_size=2, max_size=2, unique=True))
def test_blended_frames_have_no_number(numbers):
    first, second = (draw_picture(number, (96, 128)).astype(int) for number in numbers)
    with no_number():
        read_number(((first + second) // 2).astype(np.uint8))


@given(number=NUMBER, places=st.sets(st.integers(0, 29), min_size=1, max_size=3))
def test_up_to_three_wrong_blocks_are_an_error(number, places):
    picture = draw_picture(number, (80, 60))
    for place in places:
        row, column = divmod(place, 6)
        block = picture[10 * row : 10 * row + 10, 10 * column : 10 * column + 10]
        block[:] = 255 - block
    with no_number():
        read_number(picture)


@pytest.mark.parametrize("level", [0, 128, 255])
def test_a_flat_frame_has_no_number(level):
    with no_number():
        read_number(np.full((96, 128, 3), level, np.uint8))


@pytest.mark.parametrize(
    ("shape", "dtype"), [((96, 128), "u1"), ((3, 96, 128), "u1"), ((96, 128, 3), "f4")]
)
def test_a_frame_of_another_layout_is_an_error(shape, dtype):
    with pytest.raises(ValueError, match=r"must be uint8 \[H, W, 3\]"):
        read_number(np.zeros(shape, dtype))


def test_the_bars_have_their_colours():
    assert np.array_equal(read_bars(draw_picture(5, (96, 128), bars=True)), BARS)


def test_the_texture_moves_not_by_a_shift():
    before, after = (draw_picture(number, (96, 128))[60:].astype(int) for number in (5, 6))
    shifts = [(dy, dx) for dy in range(-4, 5) for dx in range(-4, 5)]
    differences = [np.abs(np.roll(before, s, (0, 1)) - after)[8:-8, 8:-8].mean() for s in shifts]
    assert min(differences) > 2
