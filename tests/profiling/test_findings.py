"""The verdict follows the numbers, and says where they stop."""

from typing import Any

import pytest

from headrace.profiling.findings.finding import Finding
from headrace.profiling.findings.loads import stage_loads
from headrace.profiling.findings.other_programs import busy_banner
from headrace.profiling.findings.verdict import find
from headrace.profiling.flow import StageRecord
from headrace.profiling.inputs import GopLengths
from headrace.profiling.provenance import Gpu, Scalar
from headrace.profiling.session import Session
from headrace.profiling.setup import Alternative, StartUpPart
from report.recorded import MACHINE, record

DECODE = (230.0, 24.0, 70.0, 31.0)
PREPROCESS = (70.0, 230.0, 90.0, 31.0)
MODEL = (70.0, 24.0, 230.0, 31.0)
SINK = (30.0, 24.0, 70.0, 230.0)


def verdict(session: Session) -> Finding:
    return find(session)[0]


def with_decode(session: Session, **changes: int) -> Session:
    return session.model_copy(update={"decode": session.decode.model_copy(update=changes)})


def with_source(session: Session, **changes: Any) -> Session:
    return session.model_copy(
        update={"inputs": tuple(video.model_copy(update=changes) for video in session.inputs)}
    )


def test_a_run_bound_by_its_model_says_so_with_the_numbers() -> None:
    assert find(record()) == (
        Finding(
            headline="Bound by the model: busy 100 % of the time; decoding comes next with 29 %.",
            bound_by=("model",),
            evidence=(
                "Busy: decode 29 %, preprocess 10 %, model 100 %, sink 13 %.",
                "The queue before it was 99 % full on average, as before a bottleneck.",
                "The queue after it was 0 % full on average, as after a bottleneck.",
                "Frames decoded per frame delivered: 1.00.",
            ),
            change="A smaller model than resnet50; what it brings is not known before it is tried, "
            "and less than 3.4 times as fast, "
            "the bound of this part taking no time at all.",
        ),
    )


@pytest.mark.parametrize(
    ("means_ms", "bound_by"),
    [(DECODE, "decode"), (PREPROCESS, "preprocess"), (MODEL, "model"), (SINK, "sink")],
)
def test_the_slowest_stage_is_what_bound_the_run(
    means_ms: tuple[float, ...], bound_by: str
) -> None:
    assert verdict(record(means_ms)).bound_by == (bound_by,)


def test_a_transfer_stage_can_bind_too() -> None:
    session = record(PREPROCESS)
    stages = [
        stage.model_copy(update={"name": "copy", "role": "transfer", "moved_bytes": 10**9})
        if stage.name == "preprocess"
        else stage
        for stage in session.stages
    ]
    found = verdict(session.model_copy(update={"stages": tuple(stages), "queues": ()}))
    assert found.bound_by == ("transfer",)
    assert str(found.change).startswith("--batch-size 32: fewer, larger copies; what it brings is")
    assert "GB/s were carried" in str(found.change)


def test_stages_within_ten_percent_are_not_ranked() -> None:
    found = verdict(record((230.0, 24.0, 222.0, 31.0)))
    assert set(found.bound_by) == {"decode", "model"}
    assert found.headline.endswith("too close to rank.")


def test_a_stage_that_is_clearly_less_busy_is_not_named_beside_the_first() -> None:
    assert verdict(record((230.0, 24.0, 190.0, 31.0))).bound_by == ("decode",)


def test_queues_that_do_not_look_like_a_bottleneck_are_shown_as_such() -> None:
    session = record()
    queues = tuple(queue.model_copy(update={"occupancy_mean": 0.2}) for queue in session.queues)
    evidence = verdict(session.model_copy(update={"queues": queues})).evidence
    assert "The queue before it was 21 % full on average, not as before a bottleneck." in evidence


def test_a_queue_is_judged_by_the_time_frames_flowed() -> None:
    """A long start leaves it empty first; that says nothing of the stages."""
    evidence = find(record(startup_ms=90_000))[1].evidence
    assert any("before it was 99 % full on average, as before" in line for line in evidence)


def test_no_stage_busy_half_of_the_time_means_no_verdict() -> None:
    session = record()
    stages = tuple(
        stage.model_copy(
            update={
                "busy_seconds": 0.4 * stage.busy_seconds,
                "starved_seconds": stage.starved_seconds + 0.6 * stage.busy_seconds,
            }
        )
        for stage in session.stages
    )
    found = verdict(session.model_copy(update={"stages": stages}))
    assert found.bound_by == ()
    assert found.headline == "No stage was busy half of the time: the busiest, the model, 40 %."
    assert found.change == (
        "--batch-size 32: fewer hand-overs between the stages; "
        "what it brings is not known before it is tried."
    )


@pytest.mark.parametrize("steps", [0, 1, 3, 12])
def test_too_few_steps_say_nothing(steps: int) -> None:
    """Three of them are warm-up."""
    (found,) = find(record(steps=steps))
    assert found.bound_by == ()
    assert found.headline.startswith("Too short to tell")


def test_few_steps_are_called_a_hint() -> None:
    assert "Only 87 steps after warm-up: a hint, not a measurement." in (
        verdict(record(steps=90)).evidence
    )
    assert not any("hint" in line for line in verdict(record(steps=93)).evidence)


def test_a_run_that_mostly_started_up_says_so_first() -> None:
    startup, pace = find(record(steps=60, startup_ms=60_000.0))
    assert startup.bound_by == ("start-up",)
    assert "Judge the speed by a longer video" in str(startup.change)
    assert pace.bound_by == ("model",)


def test_more_busy_threads_than_cores_is_said() -> None:
    machine = MACHINE.model_copy(update={"usable_cores": 1})
    assert (
        "The stages kept 1.5 threads busy on 1 core: a busy stage may have been waiting for a core."
    ) in verdict(record(machine=machine)).evidence
    assert not any(" core" in line for line in verdict(record()).evidence)


def test_several_workers_share_the_time() -> None:
    session = record()
    stages = tuple(stage.model_copy(update={"workers": 2}) for stage in session.stages)
    alone = {load.name: load.busy for load in stage_loads(session)}
    shared = stage_loads(session.model_copy(update={"stages": stages}))
    assert [load.busy for load in shared] == [
        pytest.approx(alone[load.name] / 2) for load in shared
    ]


def test_shares_of_a_stage_never_exceed_the_whole() -> None:
    for load in stage_loads(record(startup_ms=600_000.0)):
        assert 0 <= load.busy + load.starved + load.blocked <= 1 + 1e-9


def change(means_ms: tuple[float, ...], session: Session | None = None, **options: Any) -> str:
    found = verdict(session or record(means_ms, configuration=options)).change
    assert found is not None
    return found


def test_wasted_decoding_is_cured_by_a_shorter_gop() -> None:
    session = with_decode(record(DECODE), frames_decoded=13_500)
    assert change(DECODE, session).startswith("Re-encode the video with a keyframe every 30 frames")


def test_a_sparse_stride_wants_a_gop_of_its_length() -> None:
    session = with_decode(record(DECODE, configuration={"stride": 16}), frames_decoded=72_000)
    assert "(ffmpeg -g 16)" in change(DECODE, session)


def test_a_dense_stride_decodes_the_frames_between_at_any_gop() -> None:
    session = with_decode(record(DECODE, configuration={"stride": 2}), frames_decoded=9_000)
    assert "smaller size than 720×1280" in change(DECODE, session)


def test_a_gop_that_is_short_already_is_not_blamed() -> None:
    session = with_decode(record(DECODE), frames_decoded=13_500)
    gop = GopLengths(minimum=12, mean=25.0, maximum=30)
    session = with_source(session, gop=gop, has_b_frames=False)
    assert "smaller size" in change(DECODE, session)


def test_plain_decoding_is_cured_by_fewer_pixels() -> None:
    session = with_source(record(DECODE), has_b_frames=False)
    assert "smaller size than 720×1280" in change(DECODE, session)


@pytest.mark.parametrize(
    ("means_ms", "options", "expected"),
    [
        (PREPROCESS, {"prep_level": "complex"}, "--prep-level medium: "),
        (PREPROCESS, {"prep_level": "medium"}, "--prep-level simple: "),
        (PREPROCESS, {"prep_level": "simple"}, "Smaller videos: "),
        (MODEL, {"device": "cuda", "batch_size": 16}, "--batch-size 32: "),
        (MODEL, {"device": "cpu", "smaller_model": "resnet18"}, "--model-name resnet18; what it"),
        (MODEL, {"device": "cpu"}, "A smaller model than resnet50; what it brings is not known"),
    ],
)
def test_the_change_to_try_fits_the_options_in_force(
    means_ms: tuple[float, ...], options: dict[str, Any], expected: str
) -> None:
    assert change(means_ms, **options).startswith(expected)


@pytest.mark.parametrize("means_ms", [DECODE, PREPROCESS, MODEL, SINK])
def test_no_advice_throws_results_away(means_ms: tuple[float, ...]) -> None:
    assert "--stride" not in change(means_ms)


def test_a_video_that_costs_more_than_all_else_need_not_be_written() -> None:
    """230 ms of the sink, then 70 of the model."""
    assert change(SINK) == (
        "--no-video, if the predictions are what you need: about 3.2 times as fast "
        "(the model comes next, busy 31 %)."
    )


def tried(session: Session, ms_per_frame: dict[tuple[str, Scalar], float]) -> Session:
    """Return the session with options tried: name and value -> ms a frame, against 14."""
    alternatives = tuple(
        Alternative(
            option=f"--{name.replace('_', '-')} {value}",
            options={name: value},
            ms_per_frame=milliseconds,
            baseline_ms_per_frame=14.0,
        )
        for (name, value), milliseconds in ms_per_frame.items()
    )
    return session.model_copy(update={"alternatives": alternatives})


def test_of_what_was_tried_the_fastest_is_advised_with_its_figure() -> None:
    session = tried(record(MODEL), {("batch_size", 8): 7.0, ("threads", 1): 10.0})
    assert change(MODEL, session) == (
        "--batch-size 8: about 2 times as fast (tried for a moment: 7 ms a frame, 14 as it was)."
    )


def test_what_was_tried_is_believed_before_what_the_figures_predict() -> None:
    session = tried(record(SINK), {("video", False): 10.0})
    assert change(SINK, session) == (
        "--no-video, if the predictions are what you need: about 1.4 times as fast "
        "(tried for a moment: 10 ms a frame, 14 as it was)."
    )


def test_where_nothing_was_faster_it_says_what_was_tried() -> None:
    session = tried(record(MODEL), {("batch_size", 32): 14.1, ("threads", 1): 19.0})
    assert change(MODEL, session) == (
        "A smaller model than resnet50; what it brings is not known before it is tried, "
        "and less than 3.4 times as fast, "
        "the bound of this part taking no time at all "
        "(tried and no faster: --batch-size 32 and --threads 1)."
    )


def test_a_source_that_is_waited_for_is_what_bounds() -> None:
    session = record((3.0, 2.0, 10.0, 3.0))
    waiting = StageRecord(
        **{"name": "camera", "role": "decode", "workers": 1, "items": 282},
        **{"busy_seconds": 0.4, "starved_seconds": 10.0, "blocked_seconds": 0.0},
    )
    stages = [stage.model_copy(update={"busy_seconds": 0.5}) for stage in session.stages[1:]]
    found = verdict(session.model_copy(update={"stages": (waiting, *stages)}))
    assert found.bound_by == ("source",)
    assert found.headline.startswith("Bound by the source: frames come no faster; camera waited")


def test_the_verdict_comes_first_and_is_worded_by_what_other_programs_took() -> None:
    quiet, busy = (find(record(others_cpu_share=share))[0] for share in (0.04, 0.38))
    assert quiet.bound_by == busy.bound_by == ("model",)
    assert quiet.headline.startswith("Bound by the model: busy 100 % of the time;")
    assert busy.headline.startswith(
        "Bound by the model, as far as a busy machine lets one tell: busy 100 % of the time;"
    )


def test_a_machine_that_was_busy_is_said_above_the_verdict() -> None:
    assert busy_banner(0.04) is busy_banner(None) is None
    assert str(busy_banner(0.38)).startswith("Other programs used 38 % of the processor time")


def test_start_up_counts_what_was_done_before_the_run() -> None:
    parts = (
        StartUpPart(name="imports", seconds=50.0),
        StartUpPart(name="warm-up", seconds=60.0),
    )
    found = find(record(startup=parts))[0]
    assert found.bound_by == ("start-up",)
    assert found.evidence[0] == "Before the run: imports 50.0 s, warm-up 60.0 s."


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("complete", "Run a longer video"),
        ("interrupted", "Let it run longer before Ctrl-C."),
        ("failed", None),
    ],
)
def test_advice_for_a_short_run_fits_how_it_ended(outcome: str, expected: str | None) -> None:
    (found,) = find(record(steps=5, outcome=outcome))
    assert found.change == expected or str(found.change).startswith(str(expected))


def test_advice_for_a_short_run_is_possible_where_it_came_live() -> None:
    (found,) = find(record(steps=5).model_copy(update={"kind": "live"}))
    assert found.change == "Let it run longer."


def test_an_idle_gpu_is_the_first_thing_to_try_for_a_model_on_the_cpu() -> None:
    machine = MACHINE.model_copy(update={"gpus": (Gpu(name="Card A", memory_bytes=8 << 30),)})
    assert change(MODEL, record(machine=machine)) == (
        "--device cuda: this machine has a Card A; what it brings is not known before it is tried, "
        "and less than 3.4 times as fast, "
        "the bound of this part taking no time at all."
    )
