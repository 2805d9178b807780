"""When a source is silent, late, behind or wrong about its times: what is made of it."""

from dataclasses import dataclass
from fractions import Fraction

import pytest

from headrace.live.drop_policy import DropLog
from headrace.live.live_edge import LiveEdge
from headrace.live.network_source import GRACE_SECONDS, Watchdog
from headrace.live.open_options import BackOff, SourceOptions
from headrace.live.stream_reader import DecodeLag
from headrace.live.timestamp_repair import ArrivalClock, TimestampRepair
from headrace.runtime.item import DroppedItem

MS = 1_000_000
SECOND = 1000 * MS


def test_waits_before_attempts_grow_up_to_the_longest_and_end():
    def waits(**options):
        return [BackOff(first_seconds=0.25, **options).before(k) for k in (0, 1, 2, 3, 4, 10**9)]

    assert waits(longest_seconds=2) == [0.25, 0.5, 1, 2, 2, 2]
    assert waits(attempts=2) == [0.25, 0.5, *[None] * 4]
    assert waits(attempts=0) == [None] * 6


def test_drops_less_than_a_second_apart_are_one_spell():
    log = DropLog()
    for tenths, frames in ((0, 1), (5, 2), (14, 1), (25, 4)):
        log.add(tenths * SECOND // 10, source=0, stage="decode", cause="overflow", frames=frames)
    assert [(spell.began_ns, spell.frames, spell.words) for spell in log.spells] == [
        (0, 4, "overflow at decode, over 1.4 s"),
        (25 * SECOND // 10, 4, "overflow at decode"),
    ]


def test_drops_of_other_sources_stages_and_causes_are_told_apart():
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


def joined(reads, limit_seconds, most):
    """What comes of frames, each (its time, when it came, how long the read waited), in ms.

    A text in place of a time is what was dropped before.
    """
    joining = LiveEdge(limit_seconds, most)
    came = [
        joining.take(
            DroppedItem(shown)
            if isinstance(shown, str)
            else Frame(shown / 1e3, at * MS, waited / 1e3)
        )
        for shown, at, waited in reads
    ]
    came.append(joining.end())
    told = [
        [
            item.cause if isinstance(item, DroppedItem) else round(item.seconds * 1000)
            for item in items
        ]
        for items in map(list, came)
    ]
    return told, (joining.behind_milliseconds, joining.dropped)


BURST = [(ms, 1 + ms // 125, 0) for ms in range(0, 1500, 125)]
CROWD = [(ms, 1, 0) for ms in range(0, 120, 10)]


LATE = [*BURST, (1500, 50, 35), (1625, 90, 38)]
DROPPED = [("damaged", 0, 0), (0, 0, 0), ("x", 0, 0), (40, 40, 38)]
NO_ROOM = [(0, 0, 0), ("overflow", 0, 0), (100, 1, 0), (200, 90, 80)]
SLOW = [(ms, ms, 0) for ms in range(0, 6000, 500)]
ROOM = (0.2, 100)
EDGES = {
    "at the present the first waits for the second": (
        *([(0, 0, 40), (40, 40, 38), (80, 80, 38)], ROOM),
        *([[], [0, 40], [80], []], (0, 0)),
    ),
    "of a backlog the newest stay": (
        *(LATE, (0.25, 100), ["backlog"] * 9 + [1125, 1250, 1375, 1500, 1625], (1375 - 11, 9)),
    ),
    "no more stay than there is room for": (
        *([*CROWD, (120, 11, 9)], (0.2, 3), ["backlog"] * 9 + [90, 100, 110, 120], (110, 9)),
    ),
    "what was dropped before keeps its place": (
        *(DROPPED, ROOM, [[], ["damaged"], [], [0, "x", 40], []], None),
    ),
    "a stream that ends at once is whole": (
        *([(0, 0, 0), (40, 1, 0)], ROOM, [[], [], [0, 40]], (39, 0)),
    ),
    "times that go back hold nothing up": (
        *([(100, 0, 0), (0, 20, 15)], ROOM, [[], [100, 0], []], None),
    ),
    "what found no room meanwhile is of the backlog": (
        *(NO_ROOM, ROOM, [[], [], [], [0, "backlog", 100, 200], []], (99, 1)),
    ),
    "a machine too slow to ever wait": (SLOW, ROOM, ["backlog"] * 10 + [5000, 5500], None),
}
"""Name -> frames, limits, what comes, and milliseconds behind with the number dropped."""


@pytest.mark.parametrize(("reads", "limits", "came", "behind"), EDGES.values(), ids=EDGES)
def test_what_a_server_had_kept_is_left_out(reads, limits, came, behind):
    found, told = joined(reads, *limits)
    flat = [item for items in found for item in items]
    assert (found if isinstance(came[0], list) else flat) == came
    assert behind in (None, told)


def test_after_a_silence_nothing_is_left_of_a_backlog():
    joining = LiveEdge(0.2, 9)
    assert joining.until_ns is None
    joining.take(Frame(0.0, 1_000, 0.0))
    assert joining.until_ns == 200_001_000
    joining.end()
    assert joining.until_ns is None


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
    ids=["keeping up", "faster than it was made", "a second behind, then half", "a pause"],
)
def test_a_second_behind_is_late_and_half_a_second_is_not_any_more(packets, is_late):
    """Of each packet: its place, when it came, how long it was waited for, in ms."""
    lag, found = DecodeLag(1.0), []
    for shown, arrived, waited in packets:
        lag.add(shown / 1000, arrived * MS, waited / 1000)
        found.append(lag.is_late)
    assert found == is_late


GIVEN, COUNTED, GAP = (True, False), (False, False), (True, True)
BACK, AHEAD = "timestamps went back by 1040 ms", "timestamps jumped ahead by 1100 ms"


@pytest.mark.parametrize(
    ("pts", "rate", "expected", "kinds", "words"),
    [
        ([7, 47, 87], 25, [7, 47, 87], [GIVEN] * 3, {}),
        ([0, None, None, 120], 25, [0, 40, 80, 120], [GIVEN, COUNTED, COUNTED, GIVEN], {1: None}),
        ([None, 40], 25, [0, 40], None, {}),
        ([None, None, None], None, [0, 1, 2], None, None),
        ([0, 0, 40, 40, 80], 25, [0, 1, 40, 41, 80], None, {1: None}),
        ([1000, 1040, 0, 40], 25, [1000, 1040, 0, 40], [GIVEN, GIVEN, GAP, GIVEN], {2: BACK}),
        ([0, 40, 1140, 1180], 25, [0, 40, 1140, 1180], [GIVEN, GIVEN, GAP, GIVEN], {2: AHEAD}),
        ([0, 2000, 4000], None, [0, 2000, 4000], [GIVEN] * 3, {}),
        ([0, 40, 80, 160, 240, 400, 560], 25, None, [GIVEN] * 7, {}),
    ],
    ids=[
        *("good", "missing: counted on, told once", "none on the first: nothing to tell"),
        *("no rate", "told twice: nudged on", "going back", "jumping ahead", "a slow camera"),
        "half the rate in the dark",
    ],
)
def test_times_that_are_missing_stand_still_go_back_or_jump(pts, rate, expected, kinds, words):
    """`kinds`: whether a time was given, and whether it is behind a gap."""
    timeline = TimestampRepair(Fraction(1, 1000), rate and Fraction(rate))
    found = [timeline.place(each) for each in pts]
    assert [each.pts for each in found] == (expected or pts)
    if kinds is None:
        assert not any(each.is_gap for each in found)
    else:
        assert [(each.is_given, each.is_gap) for each in found] == kinds
    told = {k: each.words for k, each in enumerate(found) if each.words}
    if words is not None:
        assert told.keys() == words.keys()
        assert all(words[k] in (None, said) for k, said in told.items())


def test_without_times_the_moments_of_arrival_count_and_always_grow():
    arrivals = ArrivalClock()
    moments_ns = (5_000_000_000, 5_040_000_000, 5_040_000_000, 5_030_000_000, 6_000_000_000)
    assert [arrivals.place(each) for each in moments_ns] == [0, 3600, 3601, 3602, 90_000]


def watchdog(now_seconds=0, *, is_recording=False, heard=()):
    """A watchdog of a source that was connected, and heard with these intervals, at one time."""
    options = SourceOptions(open_timeout_seconds=5, stall_seconds=1.5)
    watch, now_ns = Watchdog(options, now_seconds * SECOND), now_seconds * SECOND
    if heard is not None:
        watch.on_connected(now_ns, is_recording=is_recording)
        for interval_seconds in heard:
            watch.on_item(now_ns, interval_seconds)
    return watch


@pytest.mark.parametrize(
    ("watch", "until_seconds", "stall", "problem"),
    [
        (watchdog(2, heard=None), 2 + 5 + GRACE_SECONDS, None, "no answer came in time"),
        (watchdog(4), 9, None, "no frame for 5 s"),
        (watchdog(10, heard=(0.0, 0.04)), 11.5, "no frame for 1.5 s", "no frame for 5 s"),
        (watchdog(heard=(0.0, 2.0)), 4, None, None),
        (watchdog(heard=(0.0, 60.0)), 5, None, None),
    ],
    ids=["opening", "the first frame", "a stall, then the end", "a slow camera", "a slower one"],
)
def test_something_must_come_in_time(watch, until_seconds, stall, problem):
    assert watch.until_ns == until_seconds * SECOND
    if problem is not None:
        assert watch.check_stall() == stall
        if stall is not None:
            assert watch.until_ns == 15 * SECOND
            assert watch.check_stall() is None
        assert watch.problem.words == problem


def test_a_stall_is_over_with_the_next_frame():
    watch = watchdog(heard=(0.0, 0.04))
    watch.check_stall()
    assert watch.on_item(3 * SECOND, 0.08) == 3.0
    assert watch.until_ns == 4.5 * SECOND
    assert watch.on_item(4 * SECOND, 0.12) is None
    assert watch.check_stall() == "no frame for 1.5 s"


def test_what_was_dropped_is_a_sign_of_life_and_a_recording_may_be_silent():
    watch = watchdog(heard=(0.0, 0.04))
    watch.on_item(SECOND)
    assert watch.until_ns == 2.5 * SECOND
    assert watchdog(is_recording=True, heard=(0.0,)).until_ns is None
