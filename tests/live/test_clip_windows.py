"""Clips of live frames: from one source, never across a gap."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.live.live_source import ClipWindow, is_gap
from live.live_frames import frame, item


def groups_of(window, frames):
    windows = window.windows()
    groups = [group for k, value in enumerate(frames) for group in windows.add(item(k, value))]
    return [*groups, *windows.flush()]


def test_a_gap_is_a_wrong_number_another_run_or_another_size():
    assert is_gap(item(0, frame(4)), item(1, frame(5))) is False
    for after in (frame(6), frame(4), frame(5, run=1), frame(5, height=8)):
        assert is_gap(item(0, frame(4)), item(1, after)) is True, after


def test_clips_start_at_every_hop_and_skip_by_the_stride():
    window = ClipWindow(num_frames=3, stride=2, hop=2)
    groups = groups_of(window, [frame(k) for k in range(9)])
    clips = [[i.value.number for i in group.items] for group in groups if group.cause is None]
    assert clips == [[0, 2, 4], [2, 4, 6], [4, 6, 8]]


@given(
    window=st.builds(
        ClipWindow,
        num_frames=st.integers(1, 5),
        stride=st.integers(1, 3),
        hop=st.none() | st.integers(1, 9),
    ),
    steps=st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from([1, 1, 1, 1, 2, 5]), st.booleans()),
        max_size=60,
    ),
)
def test_clips_have_one_source_and_no_gap_and_count_each_frame_once(window, steps):
    numbers, runs, frames = [0, 0], [0, 0], []
    for source, step, is_break in steps:
        numbers[source] += step
        runs[source] += is_break and step > 1
        frames.append(frame(numbers[source], source=source, run=runs[source]))
    groups = groups_of(window, frames)
    assert sum(group.parts for group in groups) == len(frames)
    for group in groups:
        if group.cause is None:
            clip = [i.value for i in group.items]
            first = clip[0].number
            expected = range(first, first + window.num_frames * window.stride, window.stride)
            assert [f.number for f in clip] == list(expected)
            assert len({(f.source, f.run) for f in clip}) == 1
            received = {f.number for f in frames if f.source == clip[0].source}
            assert received >= set(range(first, clip[-1].number + 1))
