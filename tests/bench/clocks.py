"""Clocks with known durations."""

from threading import get_ident, local

from headrace.testing.fake_clock import FakeClock


class TickingClock(FakeClock):
    """Clock that advances by `seconds` at each reading by its own thread."""

    def __init__(self, seconds):
        super().__init__()
        self._seconds = seconds
        self._thread = get_ident()

    def now_ns(self):
        if get_ident() == self._thread:
            self.advance(self._seconds)
        return super().now_ns()


class OpeningTakesTenSeconds:
    """Clock on which the first of the four jobs of a probe takes 10 s and the others 1 s.

    Each thread has its own time. Packing and unpacking by two codecs takes no time.
    """

    def __init__(self):
        self._thread = local()

    def now_ns(self):
        reading = getattr(self._thread, "reading", -1) + 1
        self._thread.reading = reading
        probe, step = divmod(reading, 14)
        return int((13 * probe + (0, 10, 10, 11, 11, 12, 12, 13, *[13] * 6)[step]) * 1e9)

    def wall_seconds(self):
        return 0.0
