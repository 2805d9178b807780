"""Invalid clips and damage raise the errors of a page."""

from fractions import Fraction
from pathlib import Path

import pytest

from headrace.testing import damage, nuscenes, synth
from tests.kit.pages import calls_of, check_message

NAMES = {name: value for module in (nuscenes, synth) for name, value in vars(module).items()} | {
    "Fraction": Fraction,
    "damage": damage,
    "path": Path,
    "rewritten": lambda change, clip, **options: change(
        synth.write_clip(Path("clip"), clip), Path(f"out.{clip.container}"), **options
    ),
}


@pytest.mark.parametrize(("call", "message"), calls_of(Path(__file__).with_name("refused.txt")))
def test_invalid_clips_are_refused(tmp_path, monkeypatch, call, message):
    monkeypatch.chdir(tmp_path)
    check_message(call, message, NAMES)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("SynthClip(num_frames=0)", "ConfigError: something else"),
        ("SynthClip(num_frames=0)", "OpenError: ... got 0"),
        ("SynthClip(num_frames=1)", "ConfigError: ..."),
    ],
)
def test_check_message_detects_other_messages(call, message):
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_message(call, message, NAMES)
