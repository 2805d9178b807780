"""A stream that is decoded slower than it comes is noticed; one that only pauses is not."""

from contextlib import suppress
from itertools import pairwise

from headrace.live.address import addresses_of
from headrace.live.lag import Lag
from headrace.live.opening import opening_of
from headrace.live.options import SourceOptions
from headrace.live.received import Received, receive
from headrace.live.trouble import Failed
from headrace.runtime.item import Dropped
from headrace.runtime.waiter import Waiter
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip, read_number, write_clip
from live.test_http_and_udp import answer_without_end, http_server
from runtime.in_time import in_time


def late(*packets):
    """Whether it is late at each packet: (its place, when it came, how long it waited), in ms."""
    lag, found = Lag(1.0), []
    for shown, arrived, waited in packets:
        lag.take(shown / 1000, arrived * 1_000_000, waited / 1000)
        found.append(lag.is_late)
    return found


def test_who_keeps_up_is_never_late():
    assert not any(late(*((k * 40, k * 40, 30) for k in range(100))))


def test_who_reads_what_lies_ready_faster_than_it_was_made_is_not_late():
    assert not any(late(*((k * 40, k * 5, 0) for k in range(100))))


def test_a_second_behind_is_late_and_half_a_second_is_not_any_more():
    assert late((0, 0, 9), (40, 1030, 0), (80, 1090, 0), (500, 1090, 0), (600, 1091, 0)) == [
        *(False, False, True, True, False)
    ]


def test_a_pause_of_the_stream_makes_nothing_late():
    assert late((0, 0, 9), (40, 9_000, 8_900), (80, 9_001, 0)) == [False, False, False]


def test_a_slow_decoder_skips_to_keyframes_and_counts_what_it_skips(tmp_path):
    """The clock moves by 0.2 s for each frame that is decoded, and not for one that is skipped."""
    clip = SynthClip(num_frames=60, container="ts", gop=10)
    stream = write_clip(tmp_path / "clip", clip).read_bytes()
    clock, items = FakeClock(), []
    with http_server(answer_without_end(stream, None)) as url:
        opening = opening_of(addresses_of([url])[0], SourceOptions())

        def read():
            for item in receive(opening, SourceOptions(), Waiter(clock)):
                if isinstance(item, Received | Dropped):
                    items.append(item)
                if isinstance(item, Received):
                    clock.advance(0.2)

        with suppress(Failed):  # the server hangs up
            in_time(read)
    assert len(items) == 60
    dropped = [item for item in items if isinstance(item, Dropped)]
    assert {item.cause for item in dropped} == {"late"}
    numbers = [
        read_number(item.frame.to_ndarray(format="rgb24"))
        for item in items
        if isinstance(item, Received)
    ]
    jumps = [after for before, after in pairwise(numbers) if after > before + 1]
    assert jumps
    assert all(number % 10 == 0 for number in jumps)
