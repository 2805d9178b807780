"""Times in transport and program streams repeat or are missing as asked; the pictures stay."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.testing.rewrite_pes import drop_times, hold_times
from headrace.testing.synth import SynthClip, write_clip
from headrace.testing.synth_codecs import Codec
from headrace.testing.synth_containers import Container
from media import read_frames, read_packets

STREAMS: list[tuple[Codec, Container]] = [
    ("h264", "ts"),
    ("mpeg2video", "ts"),
    ("mpeg2video", "vob"),
    ("mpeg2video", "mpg"),
    ("mpeg1video", "mpg"),
]


@pytest.mark.parametrize(("codec", "container"), STREAMS)
@pytest.mark.parametrize("rewrite", [hold_times, drop_times])
def test_only_the_times_change(
    rewrite: Callable[[Path, Path], Path], codec: Codec, container: Container, tmp_path: Path
) -> None:
    path = write_clip(tmp_path / "clip", SynthClip(codec=codec, container=container, b_frames=2))
    out = rewrite(path, tmp_path / f"rewritten.{container}")
    before, after = path.read_bytes(), out.read_bytes()
    assert len(before) == len(after)
    assert before != after
    pairs = zip(read_frames(path), read_frames(out), strict=True)
    assert all(np.array_equal(a.to_ndarray(), b.to_ndarray()) for a, b in pairs)


def test_held_times_are_those_of_the_first_of_three(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip", SynthClip(container="ts", num_frames=9))
    packets = read_packets(hold_times(path, tmp_path / "held.ts"))
    assert [(p.pts, p.dts) for p in packets] == [
        (t, t) for t in (0, 0, 0, 9000, 9000, 9000, 18_000, 18_000, 18_000)
    ]


def test_two_of_three_times_are_gone(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip", SynthClip(container="ts", num_frames=6))
    packets = read_packets(drop_times(path, tmp_path / "dropped.ts"))
    assert [p.pts for p in packets] == [0, None, None, 9000, None, None]


def test_another_container_is_an_error(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=2))
    with pytest.raises(ConfigError, match="give a ts, mpg or vob"):
        hold_times(path, tmp_path / "held.mp4")
