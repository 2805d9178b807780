"""Clocks on which all that is timed takes a known time."""

from threading import get_ident, local

from headrace.testing.fake_clock import FakeClock


class TickingClock(FakeClock):
    """Each reading by its own thread is so many seconds after the last; others move nothing."""

    def __init__(self, seconds):
        super().__init__()
        self._seconds = seconds
        self._thread = get_ident()

    def now_ns(self):
        if get_ident() == self._thread:
            self.advance(self._seconds)
        return super().now_ns()


class OpeningTakesTenSeconds:
    """Of the four jobs of a probe the first takes 10 s and the others 1 s, in every thread.

    To pack and unpack its frame, by two codecs, takes no time.
    """

    def __init__(self):
        self._here = local()

    def now_ns(self):
        reading = getattr(self._here, "reading", -1) + 1
        self._here.reading = reading
        probe, place = divmod(reading, 14)
        return int((13 * probe + (0, 10, 10, 11, 11, 12, 12, 13, *[13] * 6)[place]) * 1e9)

    def wall_seconds(self):
        return 0.0
