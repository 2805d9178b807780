"""What the two modes are told apart by, in comments made from the figures."""

import pytest

from headrace.bench.scenarios import MODES, ModesConfig, ModesRecord, ModesTurn
from headrace.errors import ConfigError
from headrace.profiling.machine import provenance
from headrace.report.experiment import render_experiment, render_experiment_text


def turn(mode, fps, **figures):
    is_live = mode == "realtime"
    usual = {
        "seconds": 12,
        "cpu_seconds": 12,
        "others_cpu_seconds": 0,
        "results": 300,
        "delivered": 300,
        "dropped": {},
        "service_p50": 8,
        "latency_p50": 10 if is_live else None,
        "latency_p95": 20 if is_live else None,
        "jitter": 2 if is_live else 3,
        "fps_cv": 0.01 if is_live else 0.1,
        "per_second": (30, 30),
        "work_ms": {"decode": 2, "model": 6},
    }
    return ModesTurn(mode=mode, fps=fps, **{**usual, **figures})


def recorded(*turns):
    made = provenance({}, ("headrace", "bench", "modes"))
    machine = made.machine.model_copy(update={"usable_cores": 4})
    made = made.model_copy(update={"machine": machine})
    return ModesRecord(provenance=made, frame_rate=30, model_seconds=0.5, turns=turns)


USUAL = (turn("offline", 90), turn("realtime", 30), turn("offline", 94), turn("realtime", 30))


def found(*turns):
    [finding] = MODES.page(recorded(*turns)).findings
    return finding


def test_the_text_is_one_table_and_comments():
    assert render_experiment_text(MODES.page(recorded(*USUAL))) == TEXT


TEXT = """\
Offline and in real time: a video of 30.0 frames/s

       mode  frames/s  service ms  p50 ms  p95 ms  jitter ms  FPS CV  dropped    CPU
    offline      92.0        8.00       -       -       3.00   0.100      0 %  100 %
  real time      30.0        8.00    10.0    20.0       2.00   0.010      0 %  100 %

Real time keeps up with 30.0 frames/s, p95 latency 20.0 ms, nothing dropped
  - Offline the same pipeline makes 92.0 frames/s, 3.07 times what the video asks for; processors
    100 % of one core busy, in real time 100 %.
  - Offline a batch takes 8.00 ms of work (median); that is no latency, as a frame of a file is
    there before it is asked for.
  - Latency jitter (std of the intervals between results) is less in real time: 2.00 ms, offline
    3.00 ms.
  - Frames per second are steady in real time, where the timetable makes them: FPS CV 0.010 in real
    time, 0.100 offline (steady is below 0.05).
  - The model was ready after 0.5 s, and the first second of each turn is left out.
  Try next: There is room: headrace bench live --search streams tells how many such streams keep a
    promised latency.
"""


def test_frames_that_are_dropped_are_told_with_what_comes_out():
    slow = turn("realtime", 21, delivered=75, dropped={"overflow at decode": 25})
    finding = found(turn("offline", 25), slow)
    assert finding.headline == (
        "In real time 25 % of the frames are dropped: 21.0 of 30.0 frames/s come out, p95 latency "
        "20.0 ms"
    )
    assert finding.change.startswith("--stride of headrace run")


def test_drops_of_a_pipeline_that_is_fast_enough_are_moments_that_a_queue_may_bear():
    hasty = turn("realtime", 29.7, delivered=297, dropped={"overflow at decode": 3})
    assert found(turn("offline", 53), hasty).change.startswith("It is fast enough on the whole; ")


def test_where_other_programs_ran_drops_are_no_verdict():
    slow = turn("realtime", 21, delivered=75, dropped={"x at y": 25}, others_cpu_seconds=24)
    finding = found(turn("offline", 25), slow)
    assert finding.headline.startswith("Other programs ran meanwhile, so it may keep up without")
    assert finding.change.startswith("The same again")


@pytest.mark.parametrize(
    ("live", "offline", "said"),
    [
        (0.01, 0.02, "are steady in both modes"),
        (0.2, 0.02, "are steady offline only"),
        (0.2, 0.3, "are steady in neither mode"),
        (None, 0.3, "FPS CV needs ten whole seconds: give --seconds 13 or more."),
    ],
)
def test_steadiness_is_read_off_the_fps_cv(live, offline, said):
    finding = found(turn("offline", 90, fps_cv=offline), turn("realtime", 30, fps_cv=live))
    assert any(said in sentence for sentence in finding.evidence)


def test_offline_is_never_given_a_latency():
    page = MODES.page(recorded(*USUAL))
    offline = dict(zip(page.table.heads, page.table.rows[0], strict=True))
    assert (offline["p50 ms"], offline["p95 ms"]) == ("-", "-")


def test_an_old_record_gives_the_same_page_again():
    record = recorded(*USUAL)
    again = ModesRecord.model_validate_json(record.model_dump_json())
    assert render_experiment(MODES.page(again)) == render_experiment(MODES.page(record))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"videos": ("a", "b", "c")}, r"bench modes takes one video, got 3: a, b, \.\.\."),
        ({"seconds": 1.0}, r"seconds must be in \[2, 3600\], got 1.0"),
        ({"repeats": 0}, "repeats must be >= 1, got 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        ModesConfig(**{"videos": ("a.mp4",), **options})
