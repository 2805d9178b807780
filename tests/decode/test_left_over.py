"""H.264 behind a broken macroblock: the picture that was encoded, whatever was decoded before.

FFmpeg's decoder adds the coefficients that it read of a broken macroblock to the next picture, an
IDR included, and reports nothing of it.
"""

from contextlib import closing
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from decode.linear import linear_frames
from headrace.decode.protocol import DecodeJob
from headrace.decode.pyav import PyavDecoder
from headrace.errors import DecodeError
from headrace.testing.damage import damage_packets
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.stream_index import StreamIndex

CAVLC = (("x264-params", "cabac=0"),)
COUNT = 24
CASES = {
    "before an IDR": (SynthClip(gop=4, encoder_options=CAVLC), (7, 15), (0, 8)),
    "before an IDR, B-frames": (SynthClip(gop=4, b_frames=2, encoder_options=CAVLC), (7, 11), (7,)),
    "one IDR after the other": (SynthClip(gop=1, encoder_options=CAVLC), (9, 10), (1, 5)),
    "no other refers to it": (SynthClip(gop=12, b_frames=2, encoder_options=CAVLC), (2, 15), (11,)),
    "transport stream": (SynthClip(gop=4, container="ts", encoder_options=CAVLC), (7, 15), (3, 12)),
}
"""The clip, packets that are damaged, and seeds with which FFmpeg reports each of them."""
JOBS = {
    "one job": [range(COUNT)],
    "single frames": [[n] for n in range(COUNT)],
    "in random order": [[n] for n in Random(1).sample(range(COUNT), COUNT)],
    "far pairs": [sorted({n, (n + 5) % COUNT}) for n in Random(2).sample(range(COUNT), COUNT)],
}


def run(index: StreamIndex, jobs) -> tuple[dict[int, np.ndarray], set[int]]:
    """Return what comes by jobs on one decoder, and what they name as missing."""
    came: dict[int, np.ndarray] = {}
    lost: set[int] = set()
    with closing(PyavDecoder(index)) as decoder:
        for wanted in jobs:
            try:
                for number, frame in decoder.run(DecodeJob(tuple(wanted))):
                    came[number] = frame
            except DecodeError as error:
                lost |= set(error.missing)
    return came, lost


@pytest.mark.parametrize("count_by", ["packets", "decode"])
@pytest.mark.parametrize("case", CASES)
def test_frames_behind_damage_are_those_that_were_encoded(case, count_by, tmp_path):
    """Every way names the same frames, and gives the others as they are in the undamaged clip."""
    clip, ordinals, seeds = CASES[case]
    good = write_clip(tmp_path / "good", replace(clip, num_frames=COUNT, size=(48, 64)))
    expected = linear_frames(good)
    for seed in seeds:
        bad = tmp_path / f"bad{seed}{good.suffix}"
        damage_packets(good, bad, ordinals=ordinals, seed=seed)
        named = set()
        for way, jobs in JOBS.items():
            came, lost = run(StreamIndex.scan(bad, count_by=count_by), jobs)
            named.add(frozenset(lost))
            assert sorted([*came, *lost]) == list(range(COUNT))
            wrong = [n for n, frame in came.items() if not np.array_equal(frame, expected[n])]
            assert wrong == [], (way, seed)
        assert len(named) == 1
        assert named != {frozenset()}
