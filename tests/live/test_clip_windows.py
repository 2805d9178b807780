"""Clips of frames as they come: of one source, and never over a gap."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.live.live_source import ClipWindow, is_gap
from live.live_frames import frame, item


def clips_of(shape, frames):
    """(numbers, cause) of each group, and how many frames they end together."""
    windows = shape.windows()
    groups = [g for k, f in enumerate(frames) for g in windows.add(item(k, f))]
    groups += windows.flush()
    return groups


def test_what_a_gap_is():
    """One is missing, it comes again, of another run, in another size."""
    assert is_gap(item(0, frame(4)), item(1, frame(5))) is False
    for after in (frame(6), frame(4), frame(5, run=1), frame(5, height=8)):
        assert is_gap(item(0, frame(4)), item(1, after)) is True, after


def test_clips_begin_every_hop_and_take_every_stride():
    shape = ClipWindow(num_frames=3, stride=2, hop=2)
    groups = clips_of(shape, [frame(k) for k in range(9)])
    whole = [[i.value.number for i in g.items] for g in groups if g.cause is None]
    assert whole == [[0, 2, 4], [2, 4, 6], [4, 6, 8]]


@given(
    shape=st.builds(
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
def test_no_clip_reaches_over_a_gap_or_two_sources_and_each_frame_ends_once(shape, steps):
    at, runs, frames = [0, 0], [0, 0], []
    for source, step, breaks in steps:
        at[source] += step
        runs[source] += breaks and step > 1
        frames.append(frame(at[source], source=source, run=runs[source]))
    groups = clips_of(shape, frames)
    assert sum(group.parts for group in groups) == len(frames)
    for group in groups:
        if group.cause is None:
            clip = [i.value for i in group.items]
            first = clip[0].number
            wanted = range(first, first + shape.num_frames * shape.stride, shape.stride)
            assert [f.number for f in clip] == list(wanted)
            assert len({(f.source, f.run) for f in clip}) == 1
            between = {f.number for f in frames if f.source == clip[0].source}
            assert between >= set(range(first, clip[-1].number + 1))
