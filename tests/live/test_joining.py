"""What a server had kept is left out; a stream that comes at its pace is not touched."""

from dataclasses import dataclass

from headrace.live.joining import Joining
from headrace.runtime.item import Dropped


@dataclass(frozen=True)
class Frame:
    seconds: float
    arrived_ns: int
    waited_seconds: float


def run(*reads, limit_seconds=0.2, most=100):
    """What comes of frames, each (its time, when it came, how long the read waited), in ms."""
    joining, came = Joining(limit_seconds, most), []
    for shown, arrived, waited in reads:
        frame = (
            shown
            if isinstance(shown, Dropped)
            else Frame(shown / 1000, arrived * 1_000_000, waited / 1000)
        )
        came.append([_shown(item) for item in joining.take(frame)])
    came.append([_shown(item) for item in joining.end()])
    return came, (joining.behind_milliseconds, joining.dropped)


def _shown(item):
    return item.cause if isinstance(item, Dropped) else round(item.seconds * 1000)


def test_at_the_present_the_first_frame_waits_for_the_second():
    came, told = run((0, 0, 40), (40, 40, 38), (80, 80, 38))
    assert came == [[], [0, 40], [80], []]
    assert told == (0, 0)


def test_of_a_backlog_the_newest_frames_stay():
    burst = [(ms, 1 + ms // 125, 0) for ms in range(0, 1500, 125)]
    came, told = run(*burst, (1500, 50, 35), (1625, 90, 38), limit_seconds=0.25)
    flat = [each for some in came for each in some]
    assert flat == ["backlog"] * 9 + [1125, 1250, 1375, 1500, 1625]
    assert told == (1375 - 11, 9)


def test_no_more_frames_stay_than_there_is_room_for():
    burst = [(ms, 1, 0) for ms in range(0, 120, 10)]
    came, told = run(*burst, (120, 11, 9), most=3)
    assert [each for some in came for each in some] == ["backlog"] * 9 + [90, 100, 110, 120]
    assert told == (110, 9)


def test_what_was_dropped_before_keeps_its_place():
    came, _ = run((Dropped("damaged"), 0, 0), (0, 0, 0), (Dropped("x"), 0, 0), (40, 40, 38))
    assert came == [[], ["damaged"], [], [0, "x", 40], []]


def test_a_stream_that_ends_at_once_is_handed_on_whole():
    came, told = run((0, 0, 0), (40, 1, 0))
    assert came == [[], [], [0, 40]]
    assert told == (39, 0)


def test_a_machine_that_is_too_slow_to_ever_wait_stops_dropping():
    slow = [(ms, ms, 0) for ms in range(0, 6000, 500)]
    came, _ = run(*slow)
    flat = [each for some in came for each in some]
    assert flat[-2:] == [5000, 5500]
    assert flat.count("backlog") == 10


def test_times_that_go_back_do_not_hold_up_the_stream():
    came, _ = run((100, 0, 0), (0, 20, 15))
    assert came[1] == [100, 0]


def test_what_found_no_room_meanwhile_is_of_the_backlog():
    came, told = run((0, 0, 0), (Dropped("overflow"), 0, 0), (100, 1, 0), (200, 90, 80))
    assert came[3] == [0, "backlog", 100, 200]
    assert told == (99, 1)


def test_after_a_silence_nothing_is_left_of_a_backlog():
    joining = Joining(0.2, 9)
    assert joining.until_ns is None
    joining.take(Frame(0.0, 1_000, 0.0))
    assert joining.until_ns == 200_001_000
    joining.end()
    assert joining.until_ns is None
