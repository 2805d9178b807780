"""Back-off, live edge, lag, timestamp repair and watchdog, without a network."""

from dataclasses import dataclass
from fractions import Fraction

import pytest

from headrace.live.drop_policy import DropLog
from headrace.live.live_edge import LiveEdge
from headrace.live.network_source import GRACE_SECONDS, Watchdog
from headrace.live.open_options import BackOff, SourceOptions
from headrace.live.stream_reader import DecodeLag
from headrace.live.timestamp_repair import ArrivalClock, TimestampRepair
from headrace.runtime.stage import DroppedItem

MS = 1_000_000
SECOND = 1000 * MS


def test_back_off_doubles_up_to_the_longest_wait_and_ends_after_the_attempts():
    def waits(**options):
        return [BackOff(first_seconds=0.25, **options).before(k) for k in (0, 1, 2, 3, 4, 10**9)]

    assert waits(longest_seconds=2) == [0.25, 0.5, 1, 2, 2, 2]
    assert waits(attempts=2) == [0.25, 0.5, *[None] * 4]
    assert waits(attempts=0) == [None] * 6


def test_drops_within_a_second_are_one_spell():
    log = DropLog()
    for tenths, frames in ((0, 1), (5, 2), (14, 1), (25, 4)):
        log.add(tenths * SECOND // 10, source=0, stage="decode", cause="overflow", frames=frames)
    assert [(spell.began_ns, spell.frames, spell.words) for spell in log.spells] == [
        (0, 4, "overflow at decode, over 1.4 s"),
        (25 * SECOND // 10, 4, "overflow at decode"),
    ]


def test_each_source_stage_and_cause_has_its_own_spell():
    log, overflow, stale = DropLog(), ("decode", "overflow"), ("model", "stale")
    drops = ((0, overflow), (1, overflow), (0, stale), (None, stale), (0, overflow))
    for at_ns, (source, (stage, cause)) in enumerate(drops):
        log.add(at_ns, source=source, stage=stage, cause=cause, frames=1)
    assert [(spell.source, spell.stage, spell.frames) for spell in log.spells] == [
        *((0, "decode", 2), (1, "decode", 1), (0, "model", 1), (None, "model", 1))
    ]


@dataclass(frozen=True)
class Frame:
    seconds: float
    arrived_ns: int
    waited_seconds: float


def join(reads, limit_seconds, max_frames):
    """Return the items after each read and at the end, and (milliseconds behind, drops).

    A read is (stream time, arrival, wait) in ms, or has a drop cause in place of the stream time.
    Items are stream times in ms, or drop causes.
    """
    edge = LiveEdge(limit_seconds, max_frames)
    released = [
        edge.take(
            DroppedItem(stream_ms)
            if isinstance(stream_ms, str)
            else Frame(stream_ms / 1e3, arrived_ms * MS, waited_ms / 1e3)
        )
        for stream_ms, arrived_ms, waited_ms in reads
    ]
    released.append(edge.end())
    items = [
        [
            item.cause if isinstance(item, DroppedItem) else round(item.seconds * 1000)
            for item in group
        ]
        for group in released
    ]
    return items, (edge.behind_milliseconds, edge.dropped)


BURST = [(ms, 1 + ms // 125, 0) for ms in range(0, 1500, 125)]
CROWD = [(ms, 1, 0) for ms in range(0, 120, 10)]
LATE = [*BURST, (1500, 50, 35), (1625, 90, 38)]
DROPPED = [("damaged", 0, 0), (0, 0, 0), ("x", 0, 0), (40, 40, 38)]
NO_ROOM = [(0, 0, 0), ("overflow", 0, 0), (100, 1, 0), (200, 90, 80)]
SLOW = [(ms, ms, 0) for ms in range(0, 6000, 500)]
ROOM = (0.2, 100)
EDGES = {
    "without a backlog, the first frame waits for the second": (
        *([(0, 0, 40), (40, 40, 38), (80, 80, 38)], ROOM),
        *([[], [0, 40], [80], []], (0, 0)),
    ),
    "only the newest frames of a backlog stay": (
        *(LATE, (0.25, 100), ["backlog"] * 9 + [1125, 1250, 1375, 1500, 1625], (1375 - 11, 9)),
    ),
    "at most max_frames stay": (
        *([*CROWD, (120, 11, 9)], (0.2, 3), ["backlog"] * 9 + [90, 100, 110, 120], (110, 9)),
    ),
    "earlier drops keep their position": (
        *(DROPPED, ROOM, [[], ["damaged"], [], [0, "x", 40], []], None),
    ),
    "a stream that ends at once is complete": (
        *([(0, 0, 0), (40, 1, 0)], ROOM, [[], [], [0, 40]], (39, 0)),
    ),
    "decreasing timestamps end the search": (
        *([(100, 0, 0), (0, 20, 15)], ROOM, [[], [100, 0], []], None),
    ),
    "an overflow during the search counts as backlog": (
        *(NO_ROOM, ROOM, [[], [], [], [0, "backlog", 100, 200], []], (99, 1)),
    ),
    "a slow machine never waits": (SLOW, ROOM, ["backlog"] * 10 + [5000, 5500], None),
}
"""Name -> reads, limits, items, and (milliseconds behind, drops)."""


@pytest.mark.parametrize(("reads", "limits", "expected", "behind"), EDGES.values(), ids=EDGES)
def test_the_backlog_of_a_server_is_skipped(reads, limits, expected, behind):
    items, counts = join(reads, *limits)
    flat = [item for group in items for item in group]
    assert (items if isinstance(expected[0], list) else flat) == expected
    assert behind in (None, counts)


def test_a_silence_ends_the_search():
    edge = LiveEdge(0.2, 9)
    assert edge.until_ns is None
    edge.take(Frame(0.0, 1_000, 0.0))
    assert edge.until_ns == 200_001_000
    edge.end()
    assert edge.until_ns is None


@pytest.mark.parametrize(
    ("packets", "is_late"),
    [
        ([(k * 40, k * 40, 30) for k in range(100)], [False] * 100),
        ([(k * 40, k * 5, 0) for k in range(100)], [False] * 100),
        (
            [(0, 0, 9), (40, 1030, 0), (80, 1090, 0), (500, 1090, 0), (600, 1091, 0)],
            [False, False, True, True, False],
        ),
        ([(0, 0, 9), (40, 9_000, 8_900), (80, 9_001, 0)], [False] * 3),
    ],
    ids=["real time", "faster than real time", "a second behind, then half", "a pause"],
)
def test_late_starts_at_a_second_behind_and_ends_at_half(packets, is_late):
    """A packet is (stream time, arrival, wait) in ms."""
    lag, results = DecodeLag(1.0), []
    for stream_ms, arrived_ms, waited_ms in packets:
        lag.add(stream_ms / 1000, arrived_ms * MS, waited_ms / 1000)
        results.append(lag.is_late)
    assert results == is_late


GIVEN, EXTRAPOLATED, GAP = (True, False), (False, False), (True, True)
BACK, AHEAD = "timestamps went back by 1040 ms", "timestamps jumped ahead by 1100 ms"


@pytest.mark.parametrize(
    ("pts", "rate", "expected", "kinds", "words"),
    [
        ([7, 47, 87], 25, [7, 47, 87], [GIVEN] * 3, {}),
        (
            [0, None, None, 120],
            25,
            [0, 40, 80, 120],
            [GIVEN, EXTRAPOLATED, EXTRAPOLATED, GIVEN],
            {1: None},
        ),
        ([None, 40], 25, [0, 40], None, {}),
        ([None, None, None], None, [0, 1, 2], None, None),
        ([0, 0, 40, 40, 80], 25, [0, 1, 40, 41, 80], None, {1: None}),
        ([1000, 1040, 0, 40], 25, [1000, 1040, 0, 40], [GIVEN, GIVEN, GAP, GIVEN], {2: BACK}),
        ([0, 40, 1140, 1180], 25, [0, 40, 1140, 1180], [GIVEN, GIVEN, GAP, GIVEN], {2: AHEAD}),
        ([0, 2000, 4000], None, [0, 2000, 4000], [GIVEN] * 3, {}),
        ([0, 40, 80, 160, 240, 400, 560], 25, None, [GIVEN] * 7, {}),
    ],
    ids=[
        *("regular", "missing: extrapolated, reported once", "missing on the first: not reported"),
        *("no rate", "repeated: one tick later", "going back", "jumping ahead", "a slow camera"),
        "half the rate in the dark",
    ],
)
def test_timestamps_are_repaired_and_jumps_reported(pts, rate, expected, kinds, words):
    """`kinds`: (is_given, is_gap) of each frame; `words`: frame -> message, None: any."""
    repair = TimestampRepair(Fraction(1, 1000), rate and Fraction(rate))
    repaired = [repair.repair(value) for value in pts]
    assert [stamp.pts for stamp in repaired] == (expected or pts)
    if kinds is None:
        assert not any(stamp.is_gap for stamp in repaired)
    else:
        assert [(stamp.is_given, stamp.is_gap) for stamp in repaired] == kinds
    messages = {k: stamp.words for k, stamp in enumerate(repaired) if stamp.words}
    if words is not None:
        assert messages.keys() == words.keys()
        assert all(words[k] in (None, message) for k, message in messages.items())


def test_timestamps_from_arrivals_always_increase():
    arrivals = ArrivalClock()
    times_ns = (5_000_000_000, 5_040_000_000, 5_040_000_000, 5_030_000_000, 6_000_000_000)
    assert [arrivals.timestamp(time_ns) for time_ns in times_ns] == [0, 3600, 3601, 3602, 90_000]


def watchdog(now_seconds=0, *, is_recording=False, frame_seconds=()):
    """Return the watchdog of a connection with frames at these stream times; None: not open yet."""
    options = SourceOptions(open_timeout_seconds=5, stall_seconds=1.5)
    watch, now_ns = Watchdog(options, now_seconds * SECOND), now_seconds * SECOND
    if frame_seconds is not None:
        watch.on_connected(now_ns, is_recording=is_recording)
        for seconds in frame_seconds:
            watch.on_item(now_ns, seconds)
    return watch


@pytest.mark.parametrize(
    ("watch", "until_seconds", "stall", "problem"),
    [
        (watchdog(2, frame_seconds=None), 2 + 5 + GRACE_SECONDS, None, "no answer came in time"),
        (watchdog(4), 9, None, "no frame for 5 s"),
        (watchdog(10, frame_seconds=(0.0, 0.04)), 11.5, "no frame for 1.5 s", "no frame for 5 s"),
        (watchdog(frame_seconds=(0.0, 2.0)), 4, None, None),
        (watchdog(frame_seconds=(0.0, 60.0)), 5, None, None),
    ],
    ids=["opening", "the first frame", "a stall, then the end", "a slow camera", "a slower one"],
)
def test_each_phase_of_a_connection_has_a_time_limit(watch, until_seconds, stall, problem):
    assert watch.until_ns == until_seconds * SECOND
    if problem is not None:
        assert watch.check_stall() == stall
        if stall is not None:
            assert watch.until_ns == 15 * SECOND
            assert watch.check_stall() is None
        assert watch.problem.words == problem


def test_a_stall_ends_with_the_next_frame():
    watch = watchdog(frame_seconds=(0.0, 0.04))
    watch.check_stall()
    assert watch.on_item(3 * SECOND, 0.08) == 3.0
    assert watch.until_ns == 4.5 * SECOND
    assert watch.on_item(4 * SECOND, 0.12) is None
    assert watch.check_stall() == "no frame for 1.5 s"


def test_a_drop_resets_the_limit_and_a_recording_has_no_limit():
    watch = watchdog(frame_seconds=(0.0, 0.04))
    watch.on_item(SECOND)
    assert watch.until_ns == 2.5 * SECOND
    assert watchdog(is_recording=True, frame_seconds=(0.0,)).until_ns is None
