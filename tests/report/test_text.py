"""The console's text, letter for letter."""

import pytest

from headrace.profiling.inputs import LostFrame
from headrace.profiling.provenance import Gpu
from headrace.report.text import machine_rows, render_setup, render_text
from report.recorded import MACHINE, SOURCE, record

COMPLETE = """\
Bound by the model: busy 100 % of the time; decoding comes next with 29 %.
street.mp4 · resnet50 on cpu · complete
  - Busy: decode 29 %, preprocess 10 %, model 100 %, sink 13 %.
  - The queue before it was 99 % full on average, as before a bottleneck.
  - The queue after it was 0 % full on average, as after a bottleneck.
  - Frames decoded per frame delivered: 1.00.
  Try next: A smaller model than resnet50; what it brings is not known before it is tried, and less
    than 3.4 times as fast, the bound of this part taking no time at all.

Totals
  Frames                  4,500            in 282 steps, of 4,500 in the video
  Run                     69.2 s           4.9 s of it to warm up, 3 steps
  Throughput              69.5 frames/s    after start-up; 2.32 × the speed the video plays at
  Service time            353 ms           median work per step, waits left out; p95 388 ms
  FPS CV                  0.110            below 0.05 is steady; a step adds 16 frames at once
  Latency jitter          19.1 ms          std between outputs, 8 % of the mean 230 ms
  Decoded ÷ delivered     1.00             1 is ideal; 4,500 frames decoded
  Read                    23.4 MB          4,500 packets, 0 seeks, 1 open
  L_dec : L_prep : L_inf  2.9 : 1.0 : 9.7  mean 69.3 : 23.8 : 230 ms per step; the smallest is 1

Stages, share of the time frames flowed
                  busy  no input   no room      rest
  decode          29 %       0 %      68 %       3 %
  preprocess      10 %     0.3 %      88 %       2 %
  model         99.8 %       0 %       0 %     0.2 %
  sink            13 %      85 %       0 %       2 %

Files
  predictions.jsonl
  M_resnet50_P_4711_metrics.csv
  report.html
"""

FAILED = """\
street.mp4 · resnet50 on cpu · failed: cannot decode videos/street.mp4 at frame 320

Bound by start-up: 4.9 s of 9.0 s (54 %) passed before the first measured step.
  - In the run: 4.9 s, the warm-up of 3 steps among it.
  Try next: Judge the speed by a longer video: start-up is paid once per run.

Bound by the model: busy 98 % of the time; decoding comes next with 20 %.
  - Busy: decode 20 %, preprocess 7 %, model 98 %, sink 9 %.
  - The queue before it was 87 % full on average, as before a bottleneck.
  - The queue after it was 0 % full on average, as after a bottleneck.
  - Frames decoded per frame delivered: 1.00.
  - Only 17 steps after warm-up: a hint, not a measurement.
  Try next: A smaller model than resnet50; what it brings is not known before it is tried, and less
    than 4.9 times as fast, the bound of this part taking no time at all.

Totals
  Frames                  320               in 20 steps, of 4,500 in the video
  Run                     9.0 s             4.9 s of it to warm up, 3 steps
  Throughput              67.8 frames/s     after start-up; 2.26 × the speed the video plays at
  Service time            359 ms            median work per step, waits left out; p95 n too small
  FPS CV                  n too small       2 whole seconds, 10 are needed
  Latency jitter          18.8 ms           std between outputs, 8 % of the mean 236 ms
  Decoded ÷ delivered     1.00              1 is ideal; 320 frames decoded
  Read                    1.66 MB           320 packets, 0 seeks, 1 open
  Damaged                 7 frames          asked for and not decodable
  L_dec : L_prep : L_inf  2.9 : 1.0 : 10.1  mean 68.1 : 23.4 : 235 ms per step; the smallest is 1

Stages, share of the time frames flowed
                  busy  no input   no room      rest
  decode          20 %       0 %      45 %      35 %
  preprocess       7 %       3 %      71 %      19 %
  model           98 %       0 %       0 %       2 %
  sink             9 %      76 %       0 %      15 %

Damaged: 7 frames
  frames 0 to 6  0.000 s  bad slice
"""

INTERRUPTED = """\
street.mp4 · resnet50 on cpu · interrupted

Too short to tell what bound the run: 0 steps after warm-up, 10 is the least.
  Try next: Let it run longer before Ctrl-C.

Totals
  Frames  0      in 0 steps, of 4,500 in the video
  Run     0.4 s  0.4 s of it until the first measured step
  Read    0 MB   0 packets, 0 seeks, 1 open

Files
  predictions.jsonl
  M_resnet50_P_4711_metrics.csv
  report.html
"""

SETUP = """\
System
  CPU     Example CPU 8-Core
  Cores   8 physical, 16 logical, 8 usable
  Memory  32.0 GiB
  GPU     Card A (8.00 GiB), Card B (80.0 GiB)
  System  Debian GNU/Linux 12 (bookworm), Linux 6.12.0 x86_64
  Python  CPython 3.11.7
  FFmpeg  libavcodec 62.28.102, libavformat 62.12.102, libavutil 60.26.102

Versions
  headrace  0.1.0

Configuration
  model       resnet50
  batch_size  16
  annotate    yes
  amp         no
  core_bind   not set
"""


def test_a_complete_run_is_this_text() -> None:
    assert render_text(record()) == COMPLETE


def test_a_failed_run_is_this_text() -> None:
    session = record(
        steps=20,
        outcome="failed",
        error="cannot decode videos/street.mp4 at frame 320",
        lost=tuple(
            LostFrame(index=index, pts_seconds=None if index == 3 else index / 3, cause=reason)
            for index, reason in enumerate(["bad slice"] * 7)
        ),
        outputs=(),
    )
    assert render_text(session) == FAILED


def test_a_run_interrupted_before_its_first_step_is_this_text() -> None:
    assert render_text(record(steps=0, outcome="interrupted")) == INTERRUPTED


def test_notes_are_of_the_whole_run_and_not_only_of_what_was_before_it() -> None:
    notes = ("left out: a.mp4", "decoded by cpu: 2 jobs, 32 frames, 0.11 s")
    session = record(steps=0).model_copy(update={"notes": notes})
    assert f"\nNotes\n  {notes[0]}\n  {notes[1]}\n\n" in render_text(session)


def test_the_cores_their_governor_free_memory_and_driver_are_named_where_they_are_known() -> None:
    gpu = Gpu(name="Card A", memory_bytes=8 << 30, driver="570.86.10")
    known = {"cores": "0-7", "governor": "performance", "available_bytes": 8 << 30, "gpus": (gpu,)}
    rows = dict(machine_rows(MACHINE.model_copy(update=known)))
    assert rows["Cores"] == "8 physical, 16 logical, 8 usable (0-7)"
    assert rows["Governor"] == "performance"
    assert rows["Memory"] == "32.0 GiB, 8.00 GiB available"
    assert rows["GPU"] == "Card A (8.00 GiB, driver 570.86.10)"
    assert "Governor" not in dict(machine_rows(MACHINE))


def test_the_setup_is_this_text() -> None:
    gpus = (Gpu(name="Card A", memory_bytes=8 << 30), Gpu(name="Card B", memory_bytes=80 << 30))
    found = render_setup(
        machine=MACHINE.model_copy(update={"gpus": gpus}),
        versions={"headrace": "0.1.0"},
        configuration={
            **{"model": "resnet50", "batch_size": 16, "annotate": True},
            **{"amp": False, "core_bind": None},
        },
    )
    assert found == SETUP


def test_the_first_line_is_the_verdict_and_a_busy_machine_stands_above_it() -> None:
    lines = render_text(record(others_cpu_share=0.38)).splitlines()
    assert lines[:5] == [
        "! Other programs used 38 % of the processor time meanwhile: these figures are not those "
        "of this",
        "  machine at rest. Run it again when the machine is quiet, before you act on them.",
        "",
        "Bound by the model, as far as a busy machine lets one tell: busy 100 % of the time; "
        "decoding comes",
        "next with 29 %.",
    ]


@pytest.mark.parametrize("steps", [0, 1, 2, 4, 13, 282])
def test_lines_fit_a_console_of_100_columns(steps: int) -> None:
    assert max(map(len, render_text(record(steps=steps)).splitlines())) <= 100


def test_names_cannot_steer_the_terminal() -> None:
    name = "a\x1b[2Jb\nc\rd\u202ee.mp4"
    session = record(steps=0, inputs=(SOURCE.model_copy(update={"path": name}),), error=name)
    second = render_text(session).split("\n")[1]
    assert second.startswith(r"a\x1b[2Jb\nc\rd\u202ee.mp4 · resnet50")
    assert "\x1b" not in render_text(session)


def test_the_speed_against_the_video_counts_the_frames_a_stride_passes_over() -> None:
    assert "; 9.27 × the speed" in render_text(record(configuration={"stride": 4}))


def test_a_configuration_without_a_model_has_a_shorter_title() -> None:
    made = record(steps=0).provenance.model_copy(update={"configuration": {}})
    session = record(steps=0).model_copy(update={"provenance": made})
    assert "\nstreet.mp4 · complete\n" in render_text(session)
