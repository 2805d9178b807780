"""The findings of sessions: bottleneck, evidence and advice, word for word."""

from dataclasses import replace

import pytest

from headrace.profiling.findings.bottleneck import (
    find_extraction_bound,
    find_overload,
    find_training_bound,
)
from headrace.profiling.findings.utilization import stage_loads
from headrace.profiling.findings.verdict import busy_banner, find
from headrace.profiling.input_records import EventRecord, GopLengths, SourceRecord
from headrace.profiling.metrics import Metrics
from headrace.profiling.provenance import Gpu, Scalar, record_of
from headrace.profiling.run_records import (
    Alternative,
    ItemCounts,
    QueueRecord,
    StageRecord,
    StartUpPart,
)
from headrace.profiling.session import Session, Steps
from headrace.runtime.pipeline import Pipeline
from headrace.runtime.stage import Stage
from headrace.runtime.waitable_source import WaitableSource
from headrace.testing.fake_clock import FakeClock
from profiling.loops import Loop, simulate_loop, simulate_planned
from profiling.sessions import PROXIES, extracted, live, trained
from report.recorded import MACHINE, changed, changed_all, record, stage_record, step_of

DECODE = (230.0, 24.0, 70.0, 31.0)
PREPROCESS = (70.0, 230.0, 90.0, 31.0)
MODEL = (70.0, 24.0, 230.0, 31.0)
SINK = (30.0, 24.0, 70.0, 230.0)
FORWARD = (1, 1, 5, 2, 1)
WITH_GPU = changed(MACHINE, gpus=(Gpu(name="Card A", memory_bytes=8 << 30),))
SHORT_GOP = GopLengths(minimum=12, mean=25.0, maximum=30)


def decoded(frames: int, *, gop: GopLengths | None = None, **options: Scalar) -> Session:
    """Return a run bound by decoding, with `frames` decoded for 4,500 delivered."""
    session = record(DECODE, configuration=options)
    session = changed(session, decode=changed(session.decode, frames_decoded=frames))
    return changed(session, inputs=changed_all(session.inputs, gop=gop)) if gop else session


def tried(means_ms: tuple[float, ...], **ms_per_frame: tuple[Scalar, float]) -> Session:
    """Return a run with measured alternatives: option → (value, ms per frame); baseline: 14 ms."""
    alternatives = tuple(
        Alternative(
            option=f"--{name.replace('_', '-')} {value}",
            options={name: value},
            ms_per_frame=milliseconds,
            baseline_ms_per_frame=14.0,
        )
        for name, (value, milliseconds) in ms_per_frame.items()
    )
    return record(means_ms, alternatives=alternatives)


def with_transfer() -> Session:
    session = record(PREPROCESS, queues=())
    copy = {"name": "copy", "role": "transfer", "moved_bytes": 10**9}
    stages = [changed(s, **copy) if s.name == "preprocess" else s for s in session.stages]
    return changed(session, stages=tuple(stages))


def idle() -> Session:
    session = record()
    return changed(
        session,
        stages=tuple(
            changed(
                stage,
                busy_seconds=0.4 * stage.busy_seconds,
                starved_seconds=stage.starved_seconds + 0.6 * stage.busy_seconds,
            )
            for stage in session.stages
        ),
    )


def source_bound() -> Session:
    session = record((3.0, 2.0, 10.0, 3.0))
    waiting = stage_record("camera", "decode", items=282, seconds=(0.4, 10.0, 0.0))
    return changed(session, stages=(waiting, *changed_all(session.stages[1:], busy_seconds=0.5)))


RUNS = {
    "bound by the model": record(),
    "bound by decoding": record(DECODE),
    "bound by preprocessing": record(PREPROCESS),
    "bound by a sink": record(SINK),
    "bound by a transfer": with_transfer(),
    "two stages within ten percent": record((230.0, 24.0, 222.0, 31.0)),
    "two stages further apart": record((230.0, 24.0, 190.0, 31.0)),
    "queues that do not look like a bottleneck": record(
        queues=changed_all(record().queues, occupancy_mean=0.2)
    ),
    "queues that were empty during the start-up": record(startup_ms=90_000),
    "no stage busy half of the time": idle(),
    **{f"{steps} steps, 3 to warm up": record(steps=steps) for steps in (0, 1, 3, 12, 90, 93)},
    **{f"too short, {end}": record(steps=5, outcome=end) for end in ("interrupted", "failed")},
    "too short, live": record(steps=5, kind="live"),
    "too short, pictures": record(steps=5, inputs=()),
    "pictures, mostly starting up": record(steps=60, startup_ms=60_000.0, inputs=()),
    "mostly starting up": record(steps=60, startup_ms=60_000.0),
    "mostly before the run": record(
        startup=(StartUpPart(name="imports", seconds=50), StartUpPart(name="warm-up", seconds=60))
    ),
    "more busy threads than cores": record(machine=changed(MACHINE, usable_cores=1)),
    "unused decoded frames": decoded(13_500),
    "unused decoded frames, large stride": decoded(72_000, stride=16),
    "unused decoded frames, small stride": decoded(9_000, stride=2),
    "unused decoded frames, short GOPs": decoded(13_500, gop=SHORT_GOP),
    "preprocessing complex": record(PREPROCESS, configuration={"prep_level": "complex"}),
    "preprocessing simple": record(PREPROCESS, configuration={"prep_level": "simple"}),
    "a model on the GPU": record(MODEL, configuration={"device": "cuda"}),
    "a smaller model is known": record(MODEL, configuration={"smaller_model": "resnet18"}),
    "custom weights": record(MODEL, configuration={"has_own_weights": True}),
    "an idle GPU": record(machine=WITH_GPU),
    "the fastest of two alternatives": tried(MODEL, batch_size=(8, 7.0), threads=(1, 10.0)),
    "an alternative with another gain than predicted": tried(SINK, video=(False, 10.0)),
    "alternatives that are no faster": tried(MODEL, batch_size=(32, 14.1), threads=(1, 19.0)),
    "bound by the source": source_bound(),
    "on a quiet machine": record(others_cpu_share=0.04),
    "on a busy machine": record(others_cpu_share=0.38),
}
EXTRACTIONS = {
    "pictures as png": extracted(10, 85, 5),
    "pictures as jpg": extracted(10, 85, 5, format="jpg"),
    "thirty frames decoded per picture": extracted(80, 15, 5, amplification=30.0),
    "few unused decoded frames": extracted(80, 15, 5, amplification=1.5),
    "a slow disk": extracted(10, 30, 60, format="jpg"),
    "cores without a worker": extracted(10, 85, 5, workers=2),
    "proxies bound by the comparison": extracted(10, 30, 60, roles=PROXIES, format=None),
    "proxies bound by the encoder": extracted(10, 60, 30, roles=PROXIES, format=None),
}
TRAININGS = {
    "forward and backward": trained(*FORWARD, configuration={"train_from": "layer4"}),
    "gradient checkpointing": trained(*FORWARD, configuration={"checkpoint_gradients": True}),
    "data": trained(8, 1, 1, 0, 0),
    "preprocessing": trained(1, 8, 1, 0, 0, configuration={"size": "64,64"}),
    "an idle GPU": trained(*FORWARD, provenance=record(machine=WITH_GPU).provenance),
}
SMALLER = {"smaller_model": "resnet18"}


def clips(session: Session) -> Session:
    first, *others = session.stages
    names = {"name": "clips", "role": "preprocess", "busy_seconds": 0.1}
    return changed(session, stages=(first, changed(first, **names), *others))


def flooded(*, stride: int = 1, frames: int = 320) -> Session:
    """Return a live session of 200 frames with a saturated model; `frames` more were dropped."""
    session = live(dropped={"decode": {"overflow": frames, "stride": 7}})
    times = {"decode": 0.1, "preprocess": 0.1, "model": 7.9, "sink": 0.1}
    stages = tuple(changed(s, busy_seconds=times[s.name]) for s in session.stages)
    configured = record(configuration={"overload": "keep-last", "stride": stride})
    return changed(session, stages=stages, provenance=configured.provenance, setup=configured.setup)


def with_outage(session: Session) -> Session:
    """Return the session with an outage of its source, which doubles the time."""
    later = [
        replace(step, started_ms=step.started_ms + (8_000 if k >= 100 else 0))
        for k, step in enumerate(session.steps.rows())
    ]
    events = [
        EventRecord(at_seconds=at, source=0, kind=kind, words=kind)
        for at, kind in ((4.0, "disconnected"), (12.0, "reconnected"))
    ]
    stages = [changed(s, starved_seconds=s.starved_seconds + 8.0) for s in session.stages]
    sources = (SourceRecord(name="rtsp://camera", arrived=520),)
    return changed(
        session,
        **{"steps": Steps.of(later), "events": tuple(events), "sources": sources},
        stages=tuple(stages),
    )


def in_bursts(**dropped: int) -> Session:
    """Return a live session that waited for its source and dropped frames, by cause."""
    session = live(dropped={"sink": dropped, "decode": {"backlog": 20}})
    times = {"decode": 0.1, "preprocess": 0.1, "model": 2.0, "sink": 0.1}
    stages = [changed(s, busy_seconds=times[s.name]) for s in session.stages]
    stages[0] = changed(stages[0], starved_seconds=7.0)
    options = {"overload": "keep-last", "max_staleness": "100ms"}
    events = [
        EventRecord(at_seconds=4.0, source=0, kind=kind, words=kind)
        for kind in ("stalled", "resumed", "disconnected", "reconnected")
    ]
    configured = record(configuration=options)
    return changed(
        session,
        stages=tuple(stages),
        provenance=configured.provenance,
        events=tuple(events),
        sources=(SourceRecord(name="rtsp://camera", arrived=220),),
    )


def with_slow_sink(session: Session, overload: str) -> Session:
    """Return the session with a busy sink in its own thread, which lost 85 of its results."""
    slow = stage_record("slow:Sink", "sink", items=24, seconds=(8.0, 0, 0))
    stages = (*session.stages, changed(slow, dropped={"overflow": 85}))
    origin = record(configuration={"overload": overload}).provenance
    return changed(session, stages=stages, provenance=origin)


LIVE = {
    "bursts, too old": in_bursts(stale=60),
    "bursts, too many": in_bursts(overflow=60),
    "too many frames, and a slow sink": with_slow_sink(flooded(), "keep-last"),
    "too many frames, and a sink that holds up the run": with_slow_sink(flooded(), "keep-all"),
    "too old without waiting": live(dropped={"decode": {"overflow": 9}, "sink": {"stale": 90}}),
    "kept up": live(),
    "mostly starting up": record(steps=60, startup_ms=60_000.0, kind="live"),
    "mostly starting up, and too many frames": changed(
        flooded(), startup=(StartUpPart(name="imports", seconds=50),)
    ),
    "too many frames, with a stride": flooded(stride=2, frames=190),
    "too many frames, and an outage": with_outage(flooded()),
    "too many frames": live(
        dropped={"decode": {"overflow": 90, "stride": 7}, "model": {"stale": 10}}
    ),
    "a model that is too slow": record(MODEL, kind="live", configuration=SMALLER),
    "a model of clips that is too slow": clips(record(MODEL, kind="live", configuration=SMALLER)),
    "a few drops": live(dropped={"decode": {"overflow": 4, "backlog": 80}}),
    "fell behind": live(lambda k: 40.0 * k),
}


def with_decoder(plan: Loop) -> Session:
    session = simulate_loop(plan)
    return changed(session, loader=changed(session.loader, decoder="PyAV"))


NOT_TIMED = dict.fromkeys(("store_bytes", "pack_ms", "unpack_ms"))
LOADERS = {
    "few frames decoded again": simulate_planned(amplification=1.5),
    "frames decoded again": simulate_planned(),
    "frames decoded again, packed": simulate_planned(is_packed=True),
    "frames decoded again, packing not timed": simulate_planned(**NOT_TIMED),
    "clips: an epoch decodes a part of the frames": simulate_planned(store_amplification=15.0),
    "frames kept as pixels": simulate_planned(
        wider='hold="auto", so that frames wait packed', wider_amplification=1.6, **NOT_TIMED
    ),
    "a short lookahead": simulate_planned(
        wider="No lookahead=64, so that memory_budget decides", wider_amplification=1.6
    ),
    "no store is possible": simulate_planned(
        store="impossible", wider="Twice the memory_budget, 1GiB", wider_amplification=1.7
    ),
    "a store is being filled": simulate_planned(store="used"),
    "a dataset that decodes video": with_decoder(Loop(fetch=40, step=4, workers=2)),
    "a dataset that decodes video, and slow collating": with_decoder(
        Loop(fetch=5, collate=50, step=4, workers=2)
    ),
    "a dataset that decodes fast enough": with_decoder(Loop(fetch=4, step=40, workers=2)),
}


KINDS = {
    **{"runs": RUNS, "extractions": EXTRACTIONS, "trainings": TRAININGS},
    **{"live": LIVE, "loaders": LOADERS},
}


@pytest.mark.parametrize("kind", KINDS)
def test_findings_of_each_kind_of_session_word_for_word(holds, kind):
    lines = []
    for name, session in KINDS[kind].items():
        lines.append(f"# {name}")
        for finding in find(session):
            lines.append(f"{finding.headline} [{', '.join(finding.bound_by)}]")
            lines += [f"- {sentence}" for sentence in finding.evidence]
            lines.append(f"> {finding.change}")
    holds(f"findings_of_{kind}.txt", "\n".join(lines) + "\n")


AUTO = {"wider": 'hold="auto"', "wider_amplification": 1.5}
SHORT = {"wider": "No lookahead=8", "wider_amplification": 1.25}
FEWER_PIXELS = [
    *({"amplification": 1.5}, {"amplification": 1.5, **AUTO}, {"amplification": 2.0}),
    *({"store": "used"}, {"store": "used", **AUTO}, {"store": "impossible"}, {"starved_ms": 2}),
    {"unpack_ms": 480, "threads": 2, "amplification": 9},
]
AGAIN = [
    *((facts, "Fewer pixels to decode", None) for facts in FEWER_PIXELS),
    # Unpacking takes 96 ms of one core, on 8 cores; a step of 120 ms has 20 ms without the wait.
    ({}, "spill=", 120 / 20),
    ({"unpack_ms": 480}, "spill=", 120 / 62.5),
    ({"starved_ms": 40}, "spill=", 120 / 80),  # transforms take the rest of the wait
    (NOT_TIMED, "spill=", None),
    # From 2.5 to 1.5, a step takes at least 72 ms; the time to pack is not known.
    (AUTO, "hold=", None),
    ({**AUTO, "wider_amplification": 2.5}, "spill=", 120 / 20),
    (SHORT, "No lookahead=8", 120 / 60),
    ({**SHORT, "is_packed": True}, "No lookahead=8", 120 / (22 + 98 / 2)),
    ({**SHORT, "store": "impossible"}, "No lookahead=8", 120 / 60),
]


@pytest.mark.parametrize(("facts", "words", "gain"), AGAIN)
def test_the_advice_for_frames_decoded_again_has_a_predicted_gain(facts, words, gain):
    (finding,) = find(simulate_planned(**facts))
    assert finding.bound_by == ("decode",)
    assert finding.advice.words.startswith(words)
    assert finding.advice.gain == (gain and pytest.approx(gain))


def test_the_advice_for_a_loop_that_hardly_waits_is_no_disk():
    (finding,) = find(simulate_planned(wait_ms=5, step_ms=100, starved_ms=5))
    assert finding.advice.words.startswith("A cheaper step")


@pytest.mark.parametrize("find_kind", [find_extraction_bound, find_training_bound, find_overload])
def test_a_session_of_another_kind_has_no_such_finding(find_kind):
    assert find_kind(record(), Metrics.of(record())) is None


def test_a_busy_machine_has_a_warning_above_the_verdict():
    assert busy_banner(0.04) is busy_banner(None) is None
    assert str(busy_banner(0.11)).startswith("Other programs used 11 % of the CPU time")
    assert "Repeat the run" not in str(busy_banner(0.11))
    assert "Repeat the run" in str(busy_banner(0.38))


@pytest.mark.parametrize(
    ("steps", "milliseconds", "outcome", "is_hint", "has_advice"),
    [
        (120, 20, "failed", False, True),
        (60, 20, "complete", True, True),
        (60, 20, "failed", True, False),
        (60, 0.2, "complete", True, False),
        (5, 20, "complete", False, True),
        (5, 20, "failed", False, False),
    ],
)
def test_few_steps_are_a_hint_and_a_short_or_failed_loop_has_no_advice(
    steps, milliseconds, outcome, is_hint, has_advice
):
    session = simulate_loop(Loop(fetch=2 * milliseconds, step=milliseconds, steps=steps))
    (finding,) = find(changed(session, outcome=outcome))
    assert finding.headline.startswith("Hint: the loop waits for data") == is_hint
    assert bool(finding.change) == has_advice


def test_a_gain_on_a_busy_machine_is_an_upper_bound():
    (finding,) = find(simulate_loop(Loop(fetch=40, step=20, cores=2, others=2)))
    assert "num_workers=2: at most " in str(finding.change)
    assert finding.advice.prediction.startswith("at most ")


def test_several_workers_share_the_time():
    session = record()
    alone = {load.name: load.busy for load in stage_loads(session)}
    shared = stage_loads(changed(session, stages=changed_all(session.stages, workers=2)))
    assert {load.name: 2 * load.busy for load in shared} == pytest.approx(alone)


def test_shares_of_a_stage_are_at_most_one_together():
    for load in stage_loads(record(startup_ms=600_000.0)):
        assert 0 <= load.busy + load.starved + load.blocked <= 1 + 1e-9


def test_a_paced_source_is_starved_and_not_busy():
    """A source with a frame every 20 ms, before a model that takes no time."""
    clock = FakeClock()

    def read(waiter):
        for frame in range(51):
            waiter.until(frame * 20_000_000)
            yield frame

    model = Stage(name="model", function=abs)
    pipeline = Pipeline(source=WaitableSource(read=read), stages=[model], source_name="camera")
    with pipeline.run(clock=clock) as run:
        steps = Steps.of(
            step_of(
                item.index,
                first_index=item.value,
                started_ms=item.spans[0].start_ns / 1e6,
                work_ms={span.stage: span.work_ns / 1e6 for span in item.spans},
                total_ms=(item.spans[-1].end_ns - item.spans[0].start_ns) / 1e6,
            )
            for item in run
        )
        roles = {"camera": "decode", "model": "model"}
        session = record(
            steps=0,
            warmup_steps=0,
            stages=tuple(record_of(StageRecord, s, role=roles[s.name]) for s in run.stages()),
            queues=tuple(QueueRecord.of(queue, feeds=None) for queue in run.queues()),
            items=ItemCounts.of(run.flow()),
            wall_seconds=clock.now_ns() / 1e9,
        )
    camera = session.stages[0]
    assert (camera.starved_seconds, camera.busy_seconds) == (1.0, 0.0)
    assert session.items == ItemCounts(arrived=51, delivered=51, dropped=0, in_flight=0)
    (finding,) = find(changed(session, steps=steps))
    assert (finding.bound_by, finding.change) == (("source",), None)
    assert finding.headline == "Bound by the source: camera waited for frames 100 % of the time."
