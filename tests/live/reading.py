"""Reader of a source in a test: frames and events in order, and their invariants."""

from itertools import pairwise

from headrace.live.address import parse_addresses
from headrace.live.live_source import LiveFrame
from headrace.live.open_options import SourceOptions
from headrace.live.realtime_source import live_source
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.runtime.stage import DroppedItem
from headrace.runtime.waitable_source import Waiter

QUICK = SourceOptions(open_timeout_seconds=3, stall_seconds=0.3)
"""The shortest limits that hold on a busy machine."""


class Read:
    """Reads a source in the calling thread: iterate it. `on[kind]` is called on an event."""

    def __init__(self, text, options=QUICK, store=None, clock=SYSTEM_CLOCK, **kwargs):
        self.source = live_source(parse_addresses([text])[0], options, store, **kwargs)
        self.waiter = Waiter(clock)
        self.events = []
        self.items = []
        self.on = {}

    def __iter__(self):
        for item in self.source.frames(3, self.waiter, self.note):
            self.items.append(item)
            yield item

    def note(self, event):
        assert event.source == 3
        self.events.append(event)
        self.on.get(event.kind, lambda: None)()

    def take(self, num_frames):
        """Read until `num_frames` frames arrived, and close."""
        frames = iter(self)
        try:
            while len(self.frames) < num_frames:
                next(frames)
        finally:
            frames.close()
        return self.frames

    @property
    def frames(self):
        return [item for item in self.items if isinstance(item, LiveFrame)]

    @property
    def kinds(self):
        return [event.kind for event in self.events]

    def words_of(self, kind):
        return [event.words for event in self.events if event.kind == kind]

    def check_conserved(self):
        """Check: every number is one item, a frame or a drop, in order; a run has no gap."""
        positions = {id(item): position for position, item in enumerate(self.items)}
        for frame in self.frames:
            assert frame.number == positions[id(frame)]
            assert frame.source == 3
        for frame, successor in pairwise(self.frames):
            between = self.items[frame.number + 1 : successor.number]
            assert all(isinstance(item, DroppedItem) for item in between)
            assert successor.run - frame.run in ((1,) if between else (0, 1))
            is_same_run = frame.run == successor.run
            assert successor.segment - frame.segment in ((0,) if is_same_run else (0, 1))
            if frame.segment == successor.segment:
                assert successor.pts > frame.pts
