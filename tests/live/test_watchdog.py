"""Until when something must come, and what it means if nothing does."""

from headrace.live.options import SourceOptions
from headrace.live.watchdog import GRACE_SECONDS, Watchdog

SECOND = 1_000_000_000
OPTIONS = SourceOptions(open_timeout_seconds=5, stall_seconds=1.5)


def sending(now_ns=0, interval_seconds=0.04):
    watch = Watchdog(OPTIONS, now_ns)
    watch.connected(now_ns, is_recording=False)
    watch.heard(now_ns, 0.0)
    watch.heard(now_ns, interval_seconds)
    return watch


def test_a_connection_must_open_in_time():
    watch = Watchdog(OPTIONS, 2 * SECOND)
    assert watch.until_ns == (2 + 5 + GRACE_SECONDS) * SECOND
    assert watch.stalls() is None
    assert watch.trouble.words == "no answer came in time"


def test_the_first_frame_has_as_long_again_and_its_lack_is_no_stall():
    watch = Watchdog(OPTIONS, 0)
    watch.connected(4 * SECOND, is_recording=False)
    assert watch.until_ns == 9 * SECOND
    assert watch.stalls() is None
    assert watch.trouble.words == "no frame for 5 s"


def test_silence_is_a_stall_first_and_then_the_end():
    watch = sending(10 * SECOND)
    assert watch.until_ns == 11.5 * SECOND
    assert watch.stalls() == "no frame for 1.5 s"
    assert watch.until_ns == 15 * SECOND
    assert watch.stalls() is None
    assert watch.trouble.words == "no frame for 5 s"


def test_a_stall_is_over_with_the_next_frame():
    watch = sending()
    watch.stalls()
    assert watch.heard(3 * SECOND, 0.08) == 3.0
    assert watch.until_ns == 4.5 * SECOND
    assert watch.heard(4 * SECOND, 0.12) is None
    assert watch.stalls() == "no frame for 1.5 s"


def test_what_was_dropped_is_a_sign_of_life():
    watch = sending()
    watch.heard(SECOND)
    assert watch.until_ns == 2.5 * SECOND


def test_a_slow_camera_may_be_silent_for_two_of_its_intervals():
    assert sending(0, interval_seconds=2.0).until_ns == 4 * SECOND
    assert sending(0, interval_seconds=60.0).until_ns == 5 * SECOND


def test_a_recording_may_be_silent_between_its_frames():
    watch = Watchdog(OPTIONS, 0)
    watch.connected(0, is_recording=True)
    watch.heard(0, 0.0)
    assert watch.until_ns is None
