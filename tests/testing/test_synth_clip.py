"""A clip that makes no sense cannot be described; one that does knows its own times."""

from collections.abc import Callable
from fractions import Fraction

import pytest

from headrace.errors import ConfigError
from headrace.testing.synth_clip import Look, SynthClip, Timing


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SynthClip(num_frames=0), "num_frames must be in"),
        (lambda: SynthClip(num_frames=1 << 17), "num_frames must be in"),
        (lambda: SynthClip(size=(16, 128)), "size must be at least 32x32"),
        (lambda: SynthClip(size=(75, 53)), "needs even sizes"),
        (lambda: SynthClip(codec="vp9", b_frames=2), "vp9 has no B-frames"),
        (lambda: SynthClip(open_gop=True), "an open GOP needs b_frames >= 1"),
        (lambda: SynthClip(structure="hidden_packets"), "is for vp8, vp9, got codec 'h264'"),
        (lambda: SynthClip(codec="hevc", structure="intra_refresh"), "is for h264"),
        (lambda: SynthClip(codec="mpeg4", structure="interlaced"), "is for h264, mpeg2video"),
        (lambda: SynthClip(container="mkv", timing=Timing(preroll=2)), "needs an edit list"),
        (lambda: SynthClip(timing=Timing(start_seconds=Fraction(-1))), "use ts"),
        (lambda: SynthClip(timing=Timing(durations_seconds=(Fraction(0),))), "above zero"),
    ],
)
def test_a_contradiction_is_an_error(build: Callable[[], SynthClip], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build()


def test_odd_sizes_are_fine_where_chroma_is_not_subsampled() -> None:
    assert SynthClip(size=(75, 53), look=Look(pixel_format="yuv444p")).size == (75, 53)


def test_times_follow_the_frame_rate() -> None:
    clip = SynthClip(num_frames=3, frame_rate=Fraction(30_000, 1001))
    assert clip.pts_seconds == (0, Fraction(1001, 30_000), Fraction(2002, 30_000))


def test_durations_repeat() -> None:
    timing = Timing(start_seconds=Fraction(2), durations_seconds=(Fraction(1), Fraction(5)))
    assert SynthClip(num_frames=4, timing=timing).pts_seconds == (2, 3, 8, 9)


def test_preroll_counts_up_to_the_first_frame_shown() -> None:
    clip = SynthClip(num_frames=2, frame_rate=Fraction(10), timing=Timing(preroll=2))
    assert [(p.number, p.seconds) for p in clip.pictures] == [
        (65_534, Fraction(-2, 10)),
        (65_535, Fraction(-1, 10)),
        (0, Fraction(0)),
        (1, Fraction(1, 10)),
    ]


def test_hidden_pictures_lie_between_frames() -> None:
    clip = SynthClip(codec="vp8", container="webm", structure="hidden_packets", num_frames=8)
    numbers = [(p.number, p.is_hidden) for p in clip.pictures]
    assert numbers[4:7] == [(4, False), (7, True), (5, False)]
    assert sum(p.is_hidden for p in clip.pictures) == 1
