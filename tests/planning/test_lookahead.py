"""GOP jobs from requests, in a window and a capacity; the device that completes a job first."""

from itertools import chain, repeat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import ConfigError, Population, UniformFrames
from headrace.planning import earliest_completion as completion
from headrace.planning.earliest_completion import DeviceQueue, ThroughputEstimates
from headrace.planning.lookahead import look_ahead
from headrace.sampling.decode_cost import lookahead_cost


def population(*gop_lengths):
    return Population.of([np.array(lengths) for lengths in gop_lengths])


POPULATION = population([4, 1, 7], [3], [5, 5, 2])


def batched(frames, size):
    return [np.array(frames[at : at + size], np.int64) for at in range(0, len(frames), size)]


def carried_out(plan, capacity=None):
    """Carry out a plan; return the delivered requests, after checking each step."""
    held, delivered = set(), []
    for batch in plan:
        for job in batch.jobs:
            assert list(job.frames) == sorted(set(job.frames))
            assert not held & set(job.frames), "a held frame is decoded again"
            assert set(POPULATION.gop_of(np.array(job.frames))) == {job.gop}
            held |= set(job.frames)
        needed = set(batch.requests.flat)
        assert needed <= held
        if capacity is not None:
            assert len(held) <= capacity + batch.requests.size
        delivered.append(batch.requests)
        assert set(batch.released) <= held
        held -= set(batch.released)
    assert not held, "frames are held that nobody needs"
    return delivered


requests = st.lists(st.integers(0, POPULATION.num_frames - 1), min_size=1, max_size=80)


@given(
    frames=requests,
    size=st.integers(1, 9),
    lookahead=st.integers(1, 100),
    capacity=st.integers(0, 30),
    first=st.none() | st.integers(1, 20),
)
def test_every_request_is_held_when_it_is_due_and_none_is_moved(
    frames, size, lookahead, capacity, first
):
    """Also where the window begins narrow."""
    batches = batched(frames, size)
    plan = look_ahead(batches, POPULATION, lookahead=lookahead, capacity=capacity, first=first)
    delivered = carried_out(plan, capacity)
    assert [batch.tolist() for batch in delivered] == [batch.tolist() for batch in batches]


class Disk:
    """Frames on a disk: GOPs are stored whole, but for the first few jobs."""

    def __init__(self, plain_jobs):
        self.frames = set()
        self._plain_jobs = plain_jobs

    def has(self, frame):
        return frame in self.frames

    def plan(self, gop):
        self._plain_jobs -= 1
        if self._plain_jobs >= 0:
            return False
        first, stop = POPULATION.gop_start[gop : gop + 2].tolist()
        self.frames |= {*range(first, stop)}
        return True


@given(
    frames=requests,
    size=st.integers(1, 9),
    lookahead=st.integers(1, 100),
    capacity=st.integers(0, 30),
    plain_jobs=st.integers(0, 3),
)
def test_frames_on_a_disk_are_not_decoded_and_each_due_frame_has_one_source(
    frames, size, lookahead, capacity, plain_jobs
):
    """Of a batch, each frame is decoded for it, or waits: held, or on the disk."""
    disk, stored, held = Disk(plain_jobs), set(), set()
    batches = batched(frames, size)
    plan = look_ahead(batches, POPULATION, lookahead=lookahead, capacity=capacity, stored=disk)
    for requested, batch in zip(batches, plan, strict=True):
        due = set()
        for job in batch.jobs:
            assert not stored & {*job.frames}
            assert job.due <= {*job.frames}
            held |= {*job.frames}
            due |= job.due
            if job.is_whole:
                stored |= {*range(*POPULATION.gop_start[job.gop : job.gop + 2].tolist())}
        assert {*batch.waiting} <= held | stored
        assert {*requested.tolist()} == {*batch.waiting} | due
        assert not {*batch.waiting} & due
        held -= {*batch.released}
    assert not held


def test_the_first_batch_waits_for_no_whole_gop():
    frames = batched([0, 1, 2, 3, 4, 5, 6, 7], 4)
    options = {"stored": Disk(0), "unstored_batches": 1}
    first, second = look_ahead(frames, POPULATION, lookahead=1, capacity=0, **options)
    assert {job.is_whole for job in first.jobs} == {False}
    assert {job.is_whole for job in second.jobs} == {True}


def test_limits_that_change_count_from_the_next_batch_on():
    def jobs(limits):
        batches = batched([0, 1, 2, 3, 0, 1, 2, 3], 2)
        plan = look_ahead(batches, POPULATION, lookahead=1, capacity=0, limits=lambda: next(limits))
        return [len(batch.jobs) for batch in plan]

    narrow, wide = (1, 0), (1000, 1000)
    assert jobs(repeat(narrow)) == [2, 2, 2, 2]
    first, *others = jobs(chain([narrow], repeat(wide)))
    assert first == 2
    assert sum(others) < 6


@given(requests, st.integers(1, 9))
def test_a_window_over_everything_decodes_each_gop_once(frames, size):
    plan = list(look_ahead(batched(frames, size), POPULATION, lookahead=1000, capacity=1000))
    carried_out(plan)
    gops = [job.gop for batch in plan for job in batch.jobs]
    first_needed = dict.fromkeys(POPULATION.gop_of(np.array(frames)).tolist())
    assert gops == list(first_needed)


@given(requests, st.integers(1, 9))
def test_a_window_of_one_decodes_each_request_by_itself(frames, size):
    plan = list(look_ahead(batched(frames, size), POPULATION, lookahead=1, capacity=1000))
    carried_out(plan)
    for batch in plan:
        # Twice in a batch is once decoded: the frame is still held.
        jobs = [frame for job in batch.jobs for frame in job.frames]
        assert jobs == list(dict.fromkeys(batch.requests.tolist()))
        assert all(len(job.frames) == 1 for job in batch.jobs)


CLIPS = [np.array([[0, 1, 2], [4, 4, 4]]), np.array([[2, 3, 3]])]


@pytest.mark.parametrize(
    ("batches", "lookahead", "capacity", "jobs"),
    [
        (batched([0, 1, 2, 3, 0, 1], 2), 6, 0, [[(0, 1)], [(2, 3)], [(0, 1)]]),
        (batched([0, 3, 2, 1], 1), 4, 2, [[(0, 2, 3)], [], [], [(1,)]]),
        (CLIPS, 100, 100, [[(0, 1, 2, 3), (4,)], []]),
    ],
    ids=["no room still serves the batch at hand", "what does not fit is needed last", "clips"],
)
def test_jobs_of_a_window(batches, lookahead, capacity, jobs):
    plan = list(look_ahead(batches, POPULATION, lookahead=lookahead, capacity=capacity))
    assert [[job.frames for job in batch.jobs] for batch in plan] == jobs
    assert [batch.requests.shape for batch in plan] == [batch.shape for batch in batches]


def endless(read):
    """Yield batches without end; note each in `read`."""
    while True:
        read.append(len(read))
        yield np.array([0, 5, 9])


def test_batches_without_end_are_read_only_as_far_as_the_window():
    read = []
    plan = look_ahead(endless(read), POPULATION, lookahead=10, capacity=10)
    next(plan)
    assert len(read) == 4  # slots 0 to 11 hold the window that began with slot 2


def test_a_window_that_begins_narrow_is_read_as_it_widens():
    read = []
    plan = look_ahead(endless(read), POPULATION, lookahead=100, capacity=100, first=3)
    next(plan)
    assert len(read) <= 5
    for _ in range(30):
        next(plan)
    assert len(read) == 31 + 33  # 100 requests beyond the one at hand


@pytest.mark.parametrize(("lookahead", "capacity"), [(7000, 10**9), (4738, 2000)])
def test_the_first_batch_has_little_decoded_for_later_ones_and_the_rest_costs_no_more(
    lookahead, capacity
):
    gops = population(*[[30] * 20] * 40)
    frames = np.concatenate([UniformFrames(seed=each).order(gops, 0)[:] for each in range(3)])
    batches = batched(frames, 128)
    windows = [{"lookahead": lookahead}, {"lookahead": lookahead, "first": 128}, {"lookahead": 1}]
    wide, narrow, naive = (
        [_decoded(batch, gops) for batch in look_ahead(batches, gops, capacity=capacity, **window)]
        for window in windows
    )
    assert narrow[0] < 1.1 * naive[0] < wide[0]
    later = slice(lookahead // 128, 3 * lookahead // 128)
    assert sum(narrow[later]) < 1.01 * sum(wide[later])


def _decoded(batch, gops):
    return sum(job.frames[-1] - gops.gop_start[job.gop] + 1 for job in batch.jobs)


@pytest.mark.parametrize("lookahead", [1, 300, 2000])
def test_the_cost_matches_the_formula(lookahead):
    """Independent draws from 200 GOPs of 10 to 50 frames; the mean of 40,000 slots."""
    gops = population(*[[10, 50, 30, 22]] * 50)
    order = UniformFrames(seed=1).order(gops, 0)
    frames = np.concatenate([order[:], UniformFrames(seed=2).order(gops, 0)[:]] * 8)
    plan = list(look_ahead(batched(frames, 8), gops, lookahead=lookahead, capacity=10**9))
    skipped = 2 * lookahead // 8
    jobs = [job for batch in plan[skipped : len(plan) - skipped] for job in batch.jobs]
    decoded = sum(job.frames[-1] - gops.gop_start[job.gop] + 1 for job in jobs)
    slots = 8 * (len(plan) - 2 * skipped)
    cost = lookahead_cost(gops.gop_lengths, lookahead)
    assert decoded / slots == pytest.approx(cost.amplification, rel=0.03)
    assert len(jobs) / slots == pytest.approx(cost.seeks, rel=0.03)


@pytest.mark.parametrize(("lookahead", "capacity"), [(0, 1), (1, -1)])
def test_an_empty_window_is_refused(lookahead, capacity):
    with pytest.raises(ConfigError, match="lookahead must be >= 1 and capacity >= 0"):
        next(look_ahead([], POPULATION, lookahead=lookahead, capacity=capacity))


SECONDS = st.floats(0.001, 100)


TABLES = st.lists(st.fixed_dictionaries({"cpu": SECONDS, "gpu": SECONDS}), min_size=1, max_size=40)


AT_ONCE = st.fixed_dictionaries({"cpu": st.integers(1, 8), "gpu": st.integers(1, 4)})


def makespan(jobs, at_once, ways=("cpu", "gpu")):
    """Return when the last of the jobs is done, and where each went; all wait from the start."""
    left = {way: [] for way in ways}
    ended, went = 0.0, []
    for job in jobs:
        queues = {
            way: DeviceQueue(parallel_jobs=at_once[way], remaining_seconds=tuple(each))
            for way, each in left.items()
        }
        way = completion.earliest_device(queues, job)
        ended = max(ended, queues[way].completion_seconds(job[way]))
        left[way].append(job[way])
        went.append(way)
    return ended, went


@given(jobs=TABLES, at_once=AT_ONCE)
def test_both_together_never_end_later_than_the_better_of_the_two_alone(jobs, at_once):
    together, went = makespan(jobs, at_once)
    alone = [makespan(jobs, at_once, [way])[0] for way in ("cpu", "gpu")]
    assert together <= min(alone) * (1 + 1e-9)
    assert makespan(jobs, at_once) == (together, went)


@given(jobs=TABLES, at_once=AT_ONCE, way=st.sampled_from(["cpu", "gpu"]))
def test_no_job_goes_where_it_cannot_be_done(jobs, at_once, way):
    assert makespan(jobs, at_once, [way])[1] == [way] * len(jobs)


def test_a_job_waits_for_the_first_place_that_is_free():
    for left, done in (((), 3), ((5,), 3), ((5, 4), 7), ((5, 4, 2), 8)):
        assert DeviceQueue(parallel_jobs=2, remaining_seconds=left).completion_seconds(3) == done


def test_a_fast_way_is_left_for_a_slow_one_once_its_queue_is_longer():
    seconds = {"cpu": 1.0, "gpu": 0.25}
    went = makespan([seconds] * 12, {"cpu": 2, "gpu": 1})[1]
    assert went[:3] == ["gpu", "gpu", "gpu"]
    assert (went.count("cpu"), went.count("gpu")) == (4, 8)


def test_equal_ways_give_the_one_that_is_named_first():
    queues = {
        "cpu": DeviceQueue(parallel_jobs=1),
        "gpu": DeviceQueue(parallel_jobs=1),
    }
    assert completion.earliest_device(queues, {"cpu": 1.0, "gpu": 1.0}) == "cpu"


def test_unmeasured_costs_have_the_initial_estimate():
    rates = ThroughputEstimates(start={"cpu": 2.0, "gpu": 0.5})
    assert rates.seconds("gpu", "h264", 6.0) == 3.0
    after = rates.with_job("gpu", "h264", 4.0, 1.0)
    assert after.seconds("gpu", "h264", 6.0) == pytest.approx(1.5)
    assert after.seconds("gpu", "hevc", 6.0) == 3.0
    assert after.seconds("cpu", "h264", 6.0) == 12.0
    assert rates.seconds("gpu", "h264", 6.0) == 3.0


@given(
    before=st.lists(st.tuples(st.floats(0.1, 50), st.floats(1e-4, 1)), max_size=30),
    rate=st.floats(1e-4, 1),
)
def test_a_rate_that_changes_is_followed(before, rate):
    rates = ThroughputEstimates(start={"cpu": 1.0})
    for megapixels, other in before:
        rates = rates.with_job("cpu", "h264", megapixels, megapixels * other)
    old = rates.seconds("cpu", "h264", 1.0)
    for _ in range(400):
        rates = rates.with_job("cpu", "h264", 10.0, 10.0 * rate)
    new = rates.seconds("cpu", "h264", 1.0)
    assert abs(new - rate) <= 0.02 * abs(old - rate) + 1e-9


def test_each_way_is_to_be_tried_with_each_codec_once_and_again_when_it_was_long_ago():
    rates = ThroughputEstimates(start={"cpu": 1.0, "gpu": 1.0})
    assert rates.is_unknown("gpu", "h264")
    rates = rates.with_job("gpu", "h264", 1.0, 1.0)
    assert not rates.is_unknown("gpu", "h264")
    assert rates.is_unknown("cpu", "h264")
    assert rates.is_unknown("gpu", "hevc")
    for _ in range(completion.TRY_AGAIN - 1):
        rates = rates.with_job("cpu", "h264", 1.0, 1.0)
        assert not rates.is_unknown("gpu", "h264")
    rates = rates.with_job("cpu", "h264", 1.0, 1.0)
    assert rates.is_unknown("gpu", "h264")
