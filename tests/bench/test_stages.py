"""The stages of a run, batch after batch in one thread: the right frames, and each stage's time."""

from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest
import torch

from headrace.bench.benchmark import Context
from headrace.bench.stages import StagesConfig, measure_stages
from headrace.bench.stages_line import SequentialStages
from headrace.decode.bare_loop import plain_frames
from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_index
from headrace.errors import DecodeError, OpenError
from headrace.preprocess.levels import build_preprocess
from headrace.runs.options import ComputeOptions
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.runtime.marks import RangeRecorder
from headrace.testing import damage
from headrace.testing.synth import SynthClip, write_clip
from runs.tiny import Brightness, tiny_classifier


class Seen(Brightness):
    """Keeps every batch it scores."""

    def __init__(self):
        super().__init__()
        self.batches = []

    def forward(self, batch):
        self.batches.append(batch.clone())
        return super().forward(batch)


def opened(index, model=None, batch_size=1):
    """The stages of a run over a video, closed behind the block."""
    compute = ComputeOptions(batch_size=batch_size)
    return closing(SequentialStages(index, model or tiny_classifier(), compute, SYSTEM_CLOCK))


@pytest.fixture
def index(tmp_path):
    path = write_clip(tmp_path / "clip", SynthClip(num_frames=12, gop=6))
    return open_index(path, IndexStore(tmp_path / "index"))


@pytest.mark.parametrize("batch_size", [1, 5, 12, 30])
def test_the_model_sees_every_frame_in_order_and_the_first_again_after_the_last(index, batch_size):
    seen = Seen()
    model = tiny_classifier(seen)
    with opened(index, model, batch_size) as line:
        for _ in range(4):
            line.take()
    frames = np.stack(list(plain_frames(index, None)))
    wanted = build_preprocess("medium", model.input)(frames)
    numbers = torch.arange(4 * batch_size) % len(index)
    assert torch.equal(torch.cat(seen.batches), wanted[numbers])


def test_each_stage_of_a_run_is_timed_and_none_of_its_sinks(index):
    with opened(index) as line:
        assert line.roles == ("decode", "preprocess", "model")
        spent = line.take()
    assert tuple(spent) == line.roles
    assert all(wall_ns > 0 and cpu_ns >= 0 for wall_ns, cpu_ns in spent.values())


def test_one_stage_works_at_a_time_in_one_thread(index):
    marks = RangeRecorder()
    with opened(index) as line:
        for number in range(2):
            line.take(number, marks)
    ranges = marks.ranges
    assert [(each.stage, each.number) for each in ranges] == [
        (role, number) for number in range(2) for role in line.roles
    ]
    assert len({each.thread_id for each in ranges}) == 1
    for before, after in pairwise(ranges):
        assert before.end_ns <= after.start_ns


def test_without_a_folder_there_is_no_trace(index, tmp_path):
    config = StagesConfig(videos=(str(index.source),), batch_size=2, seconds=0.01, repeats=2)
    record = measure_stages(config, Context(store=IndexStore(tmp_path / "index")))
    assert record.traced == 0
    assert len(record.turns) == 2
    for turn in record.turns:
        assert {len(batches) for batches in turn.work_ms.values()} == {len(turn.cpu_ms["model"])}
        assert len(turn.work_ms["decode"]) >= 3
    assert not list(tmp_path.rglob("*.gz"))


def test_a_video_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(OpenError, match=r"gone\.mp4"):
        measure_stages(StagesConfig(videos=("gone.mp4",)), Context())


def test_a_damaged_frame_ends_it_in_words(tmp_path):
    good = write_clip(tmp_path / "good", SynthClip(num_frames=12))
    bad = damage.damage_packets(good, tmp_path / "bad.mp4", ordinals=[7])
    index = open_index(bad, IndexStore(tmp_path / "index"))
    with opened(index) as line, pytest.raises(DecodeError, match=r"bad\.mp4 cannot be decoded"):
        line.take()
