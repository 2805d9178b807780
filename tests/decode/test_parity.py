"""The proof on the user's own files: it passes when frames are equal, and can fail."""

from collections.abc import Iterator

import numpy as np
import pytest

from headrace.decode.parity import check_parity
from headrace.decode.protocol import DecodeJob
from headrace.decode.pyav import PyavDecoder
from headrace.testing import damage
from headrace.testing.synth import KINDS, SynthClip, write_clip
from media import real_clip


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_frames_of_a_real_clip_are_equal():
    [found] = check_parity(real_clip("pliers/shot_change.mp4"), num_frames=12)
    assert (found.backend, found.frames, found.compared) == ("pyav", 148, 12)
    assert (found.mismatches, found.undecodable) == ((), ())


class OffByOne(PyavDecoder):
    """Delivers the neighbour of every frame that is asked for alone."""

    def run(self, job: DecodeJob, out=None) -> Iterator[tuple[int, np.ndarray]]:
        if len(job.wanted) > 1:
            yield from super().run(job, out)
        else:
            [wanted] = job.wanted
            other = min(wanted + 1, len(self.index) - 1)
            yield from ((wanted, f) for _, f in super().run(DecodeJob((other,)), out))


def test_a_backend_that_delivers_the_neighbour_is_caught(tmp_path):
    path = write_clip(tmp_path / "clip", KINDS["h264_b_frames"])
    [found] = check_parity(path, num_frames=9, open_backend=lambda i, _: OffByOne(i))
    assert len(found.mismatches) >= found.compared - 1 > 5


def test_frames_that_cannot_be_decoded_are_listed_apart(tmp_path):
    good = write_clip(tmp_path / "good", SynthClip())
    bad = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[24])
    [found] = check_parity(bad, num_frames=200)
    assert found.mismatches == ()
    assert set(found.undecodable) >= set(range(24, 36))
