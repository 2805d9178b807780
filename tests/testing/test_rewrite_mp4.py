"""Two clips lie in one track, each with its own sample description."""

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.testing.damage import keyframe_ordinals
from headrace.testing.rewrite_mp4 import join_descriptions
from headrace.testing.synth import SynthClip, read_number, write_clip
from media import read_frames, rgb


@pytest.mark.parametrize("b_frames", [0, 2])
@pytest.mark.parametrize(
    "changes",
    [{"size": (64, 96)}, {"encoder_options": (("x264-params", "cabac=0"),)}, {"num_frames": 7}],
    ids=["size", "settings", "length"],
)
def test_both_halves_are_read_in_order(
    changes: dict[str, object], b_frames: int, tmp_path: Path
) -> None:
    first = SynthClip(b_frames=b_frames, num_frames=30)
    second = SynthClip(b_frames=b_frames, **{"num_frames": 20} | changes)
    paths = [write_clip(tmp_path / "first", first), write_clip(tmp_path / "second", second)]
    out = join_descriptions(*paths, tmp_path / "joined.mp4")
    frames = read_frames(out)
    assert [read_number(rgb(f)) for f in frames] == [*range(30), *range(second.num_frames)]
    assert (frames[-1].height, frames[-1].width) == second.size
    assert [f.pts for f in frames] == [512 * n for n in range(len(frames))]
    assert keyframe_ordinals(out)[:4] == (0, 12, 24, 30)


def test_halves_of_which_one_has_b_frames_are_an_error(tmp_path: Path) -> None:
    first = write_clip(tmp_path / "first", SynthClip(num_frames=5))
    second = write_clip(tmp_path / "second", SynthClip(num_frames=5, b_frames=2))
    with pytest.raises(ConfigError, match="write both with or without"):
        join_descriptions(first, second, tmp_path / "joined.mp4")
