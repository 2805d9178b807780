"""The limit, what broke above it, and where there is none."""

from fractions import Fraction
from itertools import islice

import pytest

from headrace.bench.live_capacity import (
    LiveConfig,
    LiveRecord,
    LiveStep,
    _sources,
    announce,
    scale_of,
)
from headrace.bench.live_capacity_report import LIVE
from headrace.decode.index_store import IndexStore
from headrace.decode.open import open_index
from headrace.errors import ConfigError
from headrace.profiling.machine import provenance
from headrace.report.experiment import render_experiment, render_experiment_text
from headrace.runtime.waiter import Waiter
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip, write_clip


def step(level, p95, broken_by=(), *, offered=None, dropped=0, others=0.0):
    return LiveStep(
        seconds=5,
        cpu_seconds=5,
        others_cpu_seconds=5 * others,
        level=level,
        offered_fps=offered or level,
        results=200,
        delivered=200,
        dropped={"overflow at decode": dropped} if dropped else {},
        fps=level,
        service_p50=8,
        latency_p50=p95 / 2,
        latency_p95=p95,
        jitter=1,
        fps_cv=None,
        per_second=(30,),
        work_ms={"decode": 2, "model": 6},
        broken_by=broken_by,
    )


def recorded(*steps, search="rate", least=5.0, most=4000.0):
    made = provenance({}, ("headrace", "bench", "live"))
    machine = made.machine.model_copy(update={"usable_cores": 4})
    return LiveRecord(
        provenance=made.model_copy(update={"machine": machine}),
        search=search,
        p95_ms=100,
        max_drop=0.01,
        frame_rate=30,
        least=least,
        most=most,
        model_seconds=0.5,
        steps=steps,
    )


BROKEN = ("p95 latency 143 ms",)
USUAL = (step(30, 20), step(60, 40), step(120, 143, BROKEN, dropped=50), step(84.9, 80))


def test_the_text_is_steps_limit_and_what_broke():
    assert render_experiment_text(LIVE.page(recorded(*USUAL))) == TEXT


TEXT = """\
What keeps p95 latency within 100 ms: rate, from a video of 30.0 frames/s

           load  frames/s  p50 ms  p95 ms  dropped    CPU  promise
  30.0 frames/s      30.0    10.0    20.0      0 %  100 %     kept
  60.0 frames/s      60.0    20.0    40.0      0 %  100 %     kept
   120 frames/s       120    71.5     143     20 %  100 %   broken
  84.9 frames/s      84.9    40.0    80.0      0 %  100 %     kept

Up to 84.9 frames/s keep the promise, 120 frames/s break it
  - The promise: p95 latency at most 100 ms, at most 1 % dropped.
  - At 84.9 frames/s: p95 latency 80.0 ms, 0 % dropped, 84.9 frames/s came out, processors 100 % of
    one core busy.
  - What broke at 120 frames/s: p95 latency 143 ms.
  - The slowest stage was then model: 6.00 ms of work on a batch, out of 8.00 ms.
  - The model was ready after 0.5 s, and the first second of each step is left out.
"""


@pytest.mark.parametrize(
    ("record", "headline", "change"),
    [
        (
            recorded(step(30, 143, BROKEN), step(5, 143, BROKEN)),
            "Even the lowest load, 5.00 frames/s, breaks the promise",
            "A lighter model",
        ),
        (
            recorded(step(1, 143, BROKEN, offered=30), search="streams", least=1, most=64),
            "Even the lowest load, 1 stream, breaks the promise",
            "A lighter model",
        ),
        (
            recorded(step(30, 143, BROKEN)),
            "No load that was tried keeps the promise, down to 30.0 frames/s",
            "--steps with a larger number, to try lower ones.",
        ),
        (
            recorded(step(30, 20)),
            "At least 30.0 frames/s keep the promise; the limit was not reached",
            "--steps with a larger number.",
        ),
        (
            recorded(step(64, 20, offered=1920), search="streams", least=1, most=64),
            "All that can be tried keeps the promise, up to 64 streams",
            None,
        ),
        (
            recorded(step(2, 20), step(3, 143, BROKEN), search="streams", least=1, most=64),
            "Up to 2 streams keep the promise, 3 streams break it",
            None,
        ),
        (
            recorded(step(30, 20, others=1), step(60, 143, BROKEN, others=1)),
            "Other programs ran meanwhile, so it may be more. Up to 30.0 frames/s keep the "
            "promise, 60.0 frames/s break it",
            "The same again with nothing else running.",
        ),
    ],
)
def test_the_verdict_follows_from_the_steps(record, headline, change):
    [finding] = LIVE.page(record).findings
    assert finding.headline == headline
    assert (finding.change or "").startswith(change or "")
    assert (finding.change is None) == (change is None)


def test_an_old_record_gives_the_same_page_again():
    record = recorded(*USUAL)
    again = LiveRecord.model_validate_json(record.model_dump_json())
    assert render_experiment(LIVE.page(again)) == render_experiment(LIVE.page(record))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"p95_ms": 0.0}, "p95_ms must be > 0, got 0.0"),
        ({"p95_ms": float("inf")}, r"p95_ms must be in \[0, 600000\], got inf"),
        ({"max_drop": 51.0}, r"max_drop must be in \[0, 50\], got 51.0"),
        ({"videos": ("a.mp4", "b.mp4")}, "bench live takes one video, got 2: a.mp4, b.mp4"),
        ({"search": "height"}, "search must be one of rate, streams; got height"),
        ({"steps": 0}, "steps must be in"),
    ],
)
def test_what_cannot_be_promised_is_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        LiveConfig(**{"videos": ("a.mp4",), **options})


def test_how_long_it_can_take_is_said_before():
    assert announce(LiveConfig(videos=("a.mp4",))) == (
        "Time: at most 12 steps of 6.0 s, 21.2 s at the lowest rates"
    )
    config = LiveConfig(videos=("a.mp4",), seconds=60.0, steps=1)
    assert announce(config) == "Time: at most 1 step of 61.0 s"


@pytest.mark.parametrize(
    ("frame_rate", "first"), [(30.0, 30), (0.5, 5), (29.97003, 30), (9e9, 4e3)]
)
def test_the_search_begins_at_the_rate_of_the_video(frame_rate, first):
    assert scale_of(LiveConfig(videos=("a.mp4",)), frame_rate).first == first
    streams = scale_of(LiveConfig(videos=("a.mp4",), search="streams"), frame_rate)
    assert (streams.first, streams.is_whole) == (1, True)


@pytest.fixture
def index(tmp_path):
    clip = SynthClip(num_frames=6, frame_rate=Fraction(10))
    return open_index(write_clip(tmp_path / "clip", clip), IndexStore(tmp_path / "index"))


def due_ns(source):
    return [frame.arrived_ns for frame in islice(source.frames(0, Waiter(FakeClock())), 3)]


def test_a_rate_is_one_stream_that_is_played_faster(index):
    [source] = _sources("rate", index, 25, 10)
    assert due_ns(source) == [0, 4 * 10**7, 8 * 10**7]


def test_streams_are_due_at_different_moments(index):
    first, second = _sources("streams", index, 2, 10)
    assert due_ns(first) == [0, 10**8, 2 * 10**8]
    assert due_ns(second) == [0, 10**8 + 5 * 10**7, 2 * 10**8 + 5 * 10**7]
