"""The FPS of each iteration, by hand and on the pipeline of a run."""

import pytest

from headrace.bench.overlap_work import Work
from headrace.bench.stability import _possible, take_stability_turn
from headrace.bench.stability_search import Candidate, StabilityTurn, fps_by_iteration, warm_up_of
from headrace.errors import ConfigError
from headrace.runs.options import ComputeOptions
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.testing.synth import SynthClip, write_clip
from headrace.video.stream_index import StreamIndex
from runs.tiny import tiny_classifier
from runtime.in_time import in_time

SECOND = 10**9


def test_an_iteration_is_its_frames_over_the_time_since_the_result_before():
    out = [0, SECOND, 3 * SECOND, int(3.5 * SECOND)]
    assert fps_by_iteration(out, [4, 4, 4, 4], 4) == ([4, 2, 8], 12, 3.5 * SECOND)


def test_a_batch_that_is_shorter_does_not_count():
    out = [0, SECOND, 3 * SECOND, 4 * SECOND]
    assert fps_by_iteration(out, [4, 4, 1, 4], 4) == ([4, 4], 8, 2 * SECOND)


def test_results_at_one_moment_are_a_nanosecond_apart():
    fps, _, _ = fps_by_iteration([5, 5], [1, 1], 1)
    assert fps == [1e9]


def test_cv_is_standard_deviation_over_mean():
    turn = StabilityTurn(
        seconds=1,
        cpu_seconds=1,
        batch_size=1,
        queue_depth=1,
        warm_up=10,
        fps=(10, 20, 30),
        frames_per_second=16,
    )
    assert turn.cv == pytest.approx((200 / 3) ** 0.5 / 20)
    assert turn.interval_cv == pytest.approx(0.4635, abs=1e-4)


@pytest.mark.parametrize(("batch_size", "queue_depth"), [(1, 1), (4, 3)])
def test_a_short_video_goes_round_until_enough_whole_batches_came(
    tmp_path, batch_size, queue_depth
):
    index = StreamIndex.scan(write_clip(tmp_path / "clip", SynthClip(num_frames=6, size=(64, 64))))
    candidate = Candidate(batch_size=batch_size, queue_depth=queue_depth)
    work = Work(tiny_classifier(), ComputeOptions())
    turn = in_time(
        lambda: take_stability_turn(work, index, candidate, iterations=25, clock=SYSTEM_CLOCK)
    )
    assert turn.candidate == candidate
    assert len(turn.fps) == 25
    assert turn.warm_up == warm_up_of(queue_depth) >= 10
    assert turn.cv > 0
    assert turn.frames_per_second > 0


def test_batches_that_the_video_has_too_few_frames_for_are_left_out():
    assert _possible((1, 8, 16), 8, "a.mp4") == (1, 8)
    with pytest.raises(ConfigError, match=r"batches of 16 frames were asked for, and a\.mp4 has 8"):
        _possible((16, 32), 8, "a.mp4")
