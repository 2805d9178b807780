"""Reading a source in a test: its frames and events in order, and what must hold of them."""

from itertools import pairwise

from headrace.live.address import parse_addresses
from headrace.live.live_source import LiveFrame
from headrace.live.open_options import SourceOptions
from headrace.live.open_source import live_source
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.runtime.item import DroppedItem
from headrace.runtime.waitable_source import Waiter

QUICK = SourceOptions(open_timeout_seconds=3, stall_seconds=0.3)
"""As short as may be on a busy machine."""


class Read:
    """Reads a source in the calling thread: iterate it. `on[kind]` is called at an event."""

    def __init__(self, text, options=QUICK, store=None, clock=SYSTEM_CLOCK, **more):
        self.source = live_source(parse_addresses([text])[0], options, store, **more)
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
        """Reads until so many frames came, and leaves."""
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
        """Every number came once, as a frame or as dropped, in order; a run has no gap."""
        places = {id(item): place for place, item in enumerate(self.items)}
        for frame in self.frames:
            assert frame.number == places[id(frame)]
            assert frame.source == 3
        for one, next_one in pairwise(self.frames):
            between = self.items[one.number + 1 : next_one.number]
            assert all(isinstance(item, DroppedItem) for item in between)
            assert next_one.run - one.run in ((1,) if between else (0, 1))
            assert next_one.segment - one.segment in ((0,) if one.run == next_one.run else (0, 1))
            if one.segment == next_one.segment:
                assert next_one.pts > one.pts
