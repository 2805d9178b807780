"""What cannot be written, or rewritten so, is refused in the words of a page."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from headrace.testing import damage, nuscenes, synth
from testing.test_rewrites import FIELDS, VP9
from tests.kit import rewrite_mp4, rewrite_pes, rewrite_streams, rewrite_vp9
from tests.kit.pages import calls_of, check_message
from tests.kit.synth_fields import write_field_pictures

NAMES = {name: value for module in (nuscenes, synth) for name, value in vars(module).items()} | {
    "FIELDS": FIELDS,
    "Fraction": Fraction,
    "VP9": VP9,
    "damage": damage,
    "join": lambda first, second: rewrite_mp4.join_descriptions(
        synth.write_clip(Path("first"), first),
        synth.write_clip(Path("second"), second),
        Path("out"),
    ),
    "mp4": rewrite_mp4,
    "path": Path,
    "pes": rewrite_pes,
    "replace": replace,
    "rewritten": lambda change, clip, **options: change(
        synth.write_clip(Path("clip"), clip), Path(f"out.{clip.container}"), **options
    ),
    "streams": rewrite_streams,
    "vp9": rewrite_vp9,
    "write_field_pictures": write_field_pictures,
}


@pytest.mark.parametrize(("call", "said"), calls_of(Path(__file__).with_name("refused.txt")))
def test_what_cannot_be_written_is_refused(tmp_path, monkeypatch, call, said):
    monkeypatch.chdir(tmp_path)
    check_message(call, said, NAMES)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("SynthClip(num_frames=0)", "ConfigError: something else"),
        ("SynthClip(num_frames=0)", "OpenError: ... got 0"),
        ("SynthClip(num_frames=1)", "ConfigError: ..."),
    ],
)
def test_another_message_or_none_is_told_from_that_of_the_page(call, said):
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_message(call, said, NAMES)
