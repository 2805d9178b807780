"""Frames coded as two fields come out whole."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.testing.damage import keyframe_ordinals
from headrace.testing.synth import SynthClip
from headrace.testing.synth_fields import write_field_pictures
from headrace.testing.synth_pixels import draw_picture
from media import read_frames, rgb

CLIP = SynthClip(codec="mpeg2video", container="ts", num_frames=20, gop=8)


def test_the_fields_of_a_frame_belong_together(tmp_path: Path) -> None:
    path = write_field_pictures(tmp_path / "fields.ts", CLIP)
    frames = read_frames(path)
    assert len(frames) == 20
    for number, frame in enumerate(frames):
        drawn = draw_picture(number, CLIP.size).astype(int)
        assert np.abs(rgb(frame) - drawn).mean() < 12
    assert keyframe_ordinals(path) == (0, 8, 16)


@pytest.mark.parametrize(
    "clip",
    [
        replace(CLIP, codec="mpeg1video"),
        replace(CLIP, b_frames=1),
        replace(CLIP, size=(80, 112)),
    ],
)
def test_a_clip_without_fields_is_an_error(clip: SynthClip, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="field pictures need mpeg2video"):
        write_field_pictures(tmp_path / "fields.ts", clip)
