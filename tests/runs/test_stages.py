"""The stages of a run, one batch at a time."""

from contextlib import closing
from fractions import Fraction

import av
import numpy as np
import pytest

from headrace.preprocess.levels import build_preprocess
from headrace.runs.stages import Carriers, Shown, stages_of
from headrace.sinks.annotated import AnnotatedVideo
from headrace.testing.synth import SynthClip, Timing, write_clip
from headrace.video.frames import FrameBatch
from headrace.video.stream_index import StreamIndex
from runs.tiny import tiny_classifier


@pytest.fixture
def index(tmp_path):
    """Return the index of a clip that starts at 5 seconds."""
    clip = SynthClip(num_frames=6, timing=Timing(start_seconds=Fraction(5)))
    return StreamIndex.scan(write_clip(tmp_path / "clip", clip))


def test_each_stage_takes_what_the_one_before_it_gives(tmp_path, index):
    classifier = tiny_classifier()
    frames = np.zeros((2, 96, 128, 3), np.uint8)
    frames[1] = 255
    wanted = np.array([3, 5])
    batch = FrameBatch(
        frames=frames,
        video=0,
        index=wanted,
        pts=index.pts[wanted],
        time_base=index.info.time_base,
        decode_seconds=0.25,
    )
    with closing(AnnotatedVideo(tmp_path, [index])) as video:
        preprocess = build_preprocess("simple", classifier.input)
        stages = stages_of(preprocess, Carriers(), classifier, [video])
        assert [stage.name for stage in stages] == ["preprocess", "model", "sink"]
        prepared = stages[0].function(batch)
        assert prepared.tensor.shape == (2, 3, 8, 8)
        seen = stages[1].function(prepared)
        assert seen.labels.names == (("dark",), ("light",))
        assert seen.batch is prepared.batch is batch
        assert stages[2].function(seen) == Shown(
            video=0, first_index=3, frames=2, decode_seconds=0.25
        )
    with av.open(str(tmp_path / "annotated.mp4")) as container:
        times = [frame.time for frame in container.decode(video=0)]
    assert times == pytest.approx([3 / 30, 5 / 30], abs=1e-4), "counted from the first frame"
