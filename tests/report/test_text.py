"""The text reports of runs, loops, launches and comparisons, word for word."""

import pytest

from headrace.profiling import number_format as numbers
from headrace.profiling.comparison import compare
from headrace.profiling.input_records import EventRecord, LostFrame, SourceRecord
from headrace.profiling.metrics import Metrics
from headrace.profiling.number_format import short_names
from headrace.profiling.provenance import Gpu
from headrace.profiling.run_records import Usage, WorkerRecord
from headrace.profiling.session import Session
from headrace.report import comparison_page
from headrace.report.benchmark_page import render_benchmark
from headrace.report.folder import render_html
from headrace.report.launch_page import launch_page, render_launch_text, write_launch
from headrace.report.session_charts import latency_chart
from headrace.report.session_tables import lost_rows, lost_words, timeline
from headrace.report.text import render_setup, render_text, render_verdict
from headrace.runs.launch.launch_record import Figures, LaunchRecord, LaunchWorkerRecord
from profiling.loops import Loop, simulate_loop
from profiling.sessions import LEARNT, extracted, live, session, trained
from report.recorded import MACHINE, SOURCE, changed, record, stage_record

CARD = Gpu(name="Card A", memory_bytes=8 << 30)
KNOWN = changed(
    MACHINE,
    **{"cores": "0-7", "governor": "performance", "available_bytes": 8 << 30},
    gpus=(changed(CARD, driver="570.86.10"), changed(CARD, name="Card B")),
)
FORWARD = (1, 1, 5, 2, 1)


def lost(frames: int, videos: int, **changes: object) -> Session:
    """Return a run without steps that lost frames of its first video, and whole other videos."""
    losses = [LostFrame(index=2 * n, pts_seconds=None, cause="bad slice") for n in range(frames)]
    for n in range(videos):
        losses.append(LostFrame(input=1 + n, index=None, pts_seconds=None, cause="?"))
    paths = ["a.mp4", *(f"bad{n}.mp4" for n in range(videos))]
    inputs = tuple(changed(SOURCE, path=path) for path in paths)
    return record(**{"steps": 0, "lost": tuple(losses), "inputs": inputs, **changes})


def concealed() -> Session:
    """Return an extraction that kept two damaged frames as FFmpeg conceals them, and lost one."""
    losses = [
        LostFrame(index=n, pts_seconds=n / 30, cause="bad slice", is_concealed=n > 0)
        for n in range(3)
    ]
    workers = (
        WorkerRecord(name=f"worker {n}", steps=50, frames=400, busy_seconds=2.5, span_seconds=2.5)
        for n in range(2)
    )
    return changed(extracted(10, 85, 5), lost=tuple(losses), workers=tuple(workers))


def live_with_events() -> Session:
    """Return a live session with events of its source and of the run."""
    events = (
        EventRecord(at_seconds=0.1, source=0, kind="joined", words="joined 640 ms behind"),
        EventRecord(at_seconds=1.0, source=0, kind="joined", words="joined"),
        EventRecord(at_seconds=2.0, source=0, kind="dropped", words="overflow", frames=50),
        EventRecord(
            at_seconds=2.5, source=None, kind="overloaded", words="50 dropped in 1.0 s", frames=50
        ),
        EventRecord(at_seconds=3.0, source=None, kind="failed", words="<b>disk</b> full"),
    )
    sources = (SourceRecord(name="rtsp://***@door/1", arrived=250),)
    session = live(dropped={"decode": {"overflow": 50}})
    slow = stage_record("slow:Sink", "sink", items=24, seconds=(8.0, 0, 0))
    stages = (*session.stages, changed(slow, dropped={"overflow": 80, "unfinished": 5}))
    return changed(session, events=events, sources=sources, stages=stages, inputs=())


def without_model() -> Session:
    notes = ("left out: a.mp4", "decoded by cpu: 2 jobs, 32 frames, 0.11 s")
    session = record(steps=0, notes=notes)
    return changed(session, provenance=changed(session.provenance, configuration={}))


RUNS = {
    "complete": record(),
    "busy": record(others_cpu_share=0.38, configuration={"stride": 4}),
    "failed": record(
        steps=20,
        outcome="failed",
        error="cannot decode videos/street.mp4 at frame 320",
        lost=tuple(
            LostFrame(index=k, pts_seconds=None if k == 3 else k / 3, cause="bad slice")
            for k in range(7)
        ),
        outputs=(),
    ),
    "interrupted": record(steps=0, outcome="interrupted"),
    "one_step": record(steps=1),
    "lost": lost(62, 56),
    "concealed": concealed(),
    "without_model": without_model(),
    "live": live_with_events(),
    "extraction": extracted(10, 85, 5),
    "training": trained(*FORWARD),
    "training_of_all_frames": trained(*FORWARD, steps=13),
    "training_of_two_steps": trained(
        *FORWARD,
        steps=2,
        training=changed(LEARNT, accuracy=None, not_measured="no video to spare"),
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_session_has_this_text_of_at_most_80_columns(holds, name):
    text = render_text(RUNS[name])
    holds(f"{name}.txt", text)
    assert max(map(len, text.splitlines())) <= 80


def test_the_setup_has_this_text(holds):
    options = {"model": "resnet50", "batch_size": 16, "annotate": True}
    options |= {"amp": False, "core_bind": None}
    for name, machine in (("known", KNOWN), ("plain", MACHINE)):
        setup = {"machine": machine, "versions": {"headrace": "0.1.0"}}
        holds(f"setup_{name}.txt", render_setup(**setup, configuration=options))


def test_names_cannot_control_the_terminal():
    name = "a\x1b[2Jb\nc\rd\u202ee.mp4"
    session = record(steps=0, inputs=(changed(SOURCE, path=name),), error=name)
    title = render_text(session).split("\n")[2]
    assert title.startswith(r"a\x1b[2Jb\nc\rd\u202ee.mp4 · resnet50")
    assert "\x1b" not in render_text(session)


SLOW_START = Loop(fetch=40, step=4, workers=2, start=3000)
LOOPS = {
    "a slow step": simulate_loop(Loop(fetch=12, step=72)),
    "logging at every step": simulate_loop(Loop(fetch=9, step=4, log=40)),
    "too few workers": simulate_loop(Loop(fetch=40, step=4, workers=2)),
    "starts again for each epoch": simulate_loop(SLOW_START.with_(steps=60, epochs=3)),
    "starts once": simulate_loop(SLOW_START.with_(steps=60)),
    "starts quickly": simulate_loop(SLOW_START.with_(start=300, epochs=3, steps=600)),
}


def test_the_verdict_on_a_loop_has_this_text(holds):
    """The change to try next has the largest gain of the whole loop."""
    loops = LOOPS | {"a busy machine": changed(LOOPS["a slow step"], others_cpu_share=0.95)}
    texts = {name: render_verdict(loop) for name, loop in loops.items()}
    holds("loops.txt", "\n".join(f"# {name}\n{text}" for name, text in texts.items()))
    assert max(len(line) for text in texts.values() for line in text.splitlines()) <= 80


def frames_of(indexes, cause="crashed", **of):
    return [LostFrame(index=index, pts_seconds=None, cause=cause, **of) for index in indexes]


CAUSES = [
    *((0, frames_of(indexes)) for indexes in ([7], [7, 8, 9], [7, 8, 50], range(0, 100, 10))),
    *((1, frames_of(indexes)) for indexes in ([None, None], [1, 2])),
    (1, [*frames_of([3]), *frames_of([4], "damaged"), *frames_of([5], "damaged", input=1)]),
]
"""(number of lost videos, lost frames)."""


def test_losses_are_counted_by_kind_and_listed_by_cause_and_video(holds):
    lines = [lost_words(lost(0, 3, inputs=()))]
    for damaged in (lost(62, 56), lost(1, 1), lost(0, 2), lost(7, 0)):
        lines.append(lost_words(damaged))
        assert f"Damaged: {lines[-1]}<" in render_html(damaged)
    for videos, frames in CAUSES:
        lines += [
            "",
            *(
                f"{row.what}, {row.frames}: {row.cause}"
                for row in lost_rows(lost(0, videos), frames)
            ),
        ]
    holds("losses.txt", "\n".join(lines) + "\n")


def test_events_are_on_the_page_and_on_the_chart_of_latency():
    session = live_with_events()
    door = "rtsp://***@door/1"
    assert [(row.at, row.what, row.where, row.words) for row in timeline(session)] == [
        ("0.1 s", "joined", door, "joined 640 ms behind"),
        ("1.0 s", "joined", door, ""),  # the description equals the kind
        ("2.0 s", "dropped", door, "50 frames: overflow"),
        ("2.5 s", "overloaded", "", "50 dropped in 1.0 s"),
        ("3.0 s", "failed", "", "<b>disk</b> full"),
    ]
    page = render_html(session)
    for words in ("<h2>Events</h2>", "Latency over time", "Latency from arrival"):
        assert words in page
        assert words not in render_html(record())
    assert "<b>disk" not in page
    latency, marks = latency_chart(session, Metrics.of(session)).figure.data
    assert (len(latency.y), set(latency.y)) == (200, {20.0})
    assert list(marks.x) == [0.1, 1.0, 2.0, 2.5, 3.0]
    assert latency_chart(record(), Metrics.of(record())) is None


def worker(name, session, outcome="complete", others=None, **more):
    return LaunchWorkerRecord(
        name=name,
        folder=f"out/{name}",
        command=("headrace", "run", "a.mp4", "--out", f"out/{name}"),
        outcome=outcome,
        figures=Figures.of(session, others) if session else None,
        **more,
    )


def launched(*workers: LaunchWorkerRecord, others: float | None = None) -> LaunchRecord:
    provenance = record(steps=1).provenance
    return LaunchRecord(provenance=provenance, workers=workers, others_cpu_share=others)


def with_others(others: float) -> LaunchRecord:
    """Return a launch; for a worker, the other workers count as other programs."""
    shares = {"cars": 0.62, "people": 0.44}
    workers = (worker(k, record(others_cpu_share=v), others=others) for k, v in shares.items())
    return launched(*workers, others=others)


KILLED = "killed (signal 9, SIGKILL) after 7 steps"
LAUNCHES = {
    "both": launched(
        worker("cars", record(usage=Usage(cpu_seconds=120, peak_memory_bytes=1 << 30)), began_ms=0),
        worker("people", record((70.0, 24.0, 115.0, 31.0)), began_ms=0.4),
    ),
    "one_died": launched(
        worker("cars", record()), worker("people", None, "died", error=KILLED, exit_code=-9)
    ),
    "busy": with_others(0.37),
    "quiet": with_others(0.02),
    "five": launched(*(worker(f"w{k}", record(steps=40)) for k in range(5))),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_has_this_text_and_this_table(holds, name, tmp_path):
    write_launch(LAUNCHES[name], tmp_path)
    table = (tmp_path / "workers.csv").read_text("utf-8")
    holds(f"launch_{name}.txt", f"{render_launch_text(LAUNCHES[name])}\n{table}")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page == render_benchmark(launch_page(LAUNCHES[name]))


def compared(share: float) -> dict[str, Session]:
    provenance = session(1).provenance
    commands = {name: ("headrace", "run", "a b.mp4", "--out", name) for name in ("eq0", "eq1")}
    first, other = (changed(provenance, command=command) for command in commands.values())
    return {
        "eq0": session(1, others_cpu_share=0.02, provenance=first),
        "eq1": session(3, model_ms=150.0, others_cpu_share=share, provenance=other),
    }


USAGE = Usage(cpu_seconds=9.0, peak_memory_bytes=2**30)
COMPARISONS = {
    "quiet": compared(0.02),
    "busy": compared(0.99),
    "short": {name: session(k, steps=20, usage=USAGE) for k, name in enumerate("ab", 1)},
    "loops": {f"workers{k}": simulate_loop(Loop(fetch=40, step=20, workers=k)) for k in (0, 2)},
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_has_this_text(holds, name):
    comparison = compare(COMPARISONS[name])
    holds(f"comparison_{name}.txt", comparison_page.render_comparison_text(comparison))


def test_the_commands_of_repeats_change_the_folder_and_not_the_script():
    script = ("--", "python", "train.py", "--out", "model")
    command = ("headrace", "profile", "--out", "old", *script)
    provenance = changed(session(1).provenance, command=command)
    loops = {name: session(1, others_cpu_share=0.99, provenance=provenance) for name in "ab"}
    [finding] = comparison_page.conclusions(compare(loops))
    first, second = (
        f"headrace profile --out {name}_$k -- python train.py --out model" for name in "ab"
    )
    assert f"do {first}; {second}; done;\nheadrace compare a_1 a_2 a_3 -- b_1" in finding.change


APPLY = "headrace profile --out old --apply-advice --json both.json -- python train.py"
RUN = "headrace run --out old --apply-advice a.mp4"
REPEAT = "headrace profile --out r$k --apply-advice -- python train.py"
REPEATED = {
    "a tried loop": (
        (APPLY, "advice", False),
        (APPLY, "tried", True),
        f"do {REPEAT}; done;\nheadrace compare r1 r2 r3 -- r1/tried r2/tried r3/tried",
    ),
    "the tried loop first, one of several": (
        (APPLY, "advice/tried/loop_2", True),
        (APPLY, "advice/loop_2", False),
        f"do {REPEAT}; done;\nheadrace compare r1/tried/loop_2 r2/tried/loop_2 r3/tried/loop_2 -- "
        "r1/loop_2 r2/loop_2 r3/loop_2",
    ),
    "a tried run": (
        (RUN, "old", False),
        (RUN, "tried", True),
        "do headrace run --out r$k --apply-advice a.mp4; done;\nheadrace compare r1 r2 r3 -- "
        "r1/tried r2/tried r3/tried",
    ),
    "a loop and the tried loop of another command": (
        ("headrace profile --out=b -- python x.py", "b", False),
        (APPLY, "tried", True),
        "do headrace profile --out b_$k -- python x.py; headrace profile --out tried_$k "
        "--apply-advice -- python train.py; done;\nheadrace compare b_1 b_2 b_3 -- tried_1/tried "
        "tried_2/tried tried_3/tried",
    ),
    "several loops": (
        ("headrace profile --out a -- python x.py", "a/loop_1", False),
        ("headrace profile --out b -- python x.py", "b/loop_1", False),
        "do headrace profile --out a_$k -- python x.py; headrace profile --out b_$k -- python "
        "x.py; done;\nheadrace compare a_1/loop_1 a_2/loop_1 a_3/loop_1 -- b_1/loop_1 b_2/loop_1 "
        "b_3/loop_1",
    ),
}


@pytest.mark.parametrize("case", REPEATED)
def test_the_printed_commands_repeat_both_sides(case):
    *sides, expected = REPEATED[case]
    runs = {}
    for command, name, is_tried in sides:
        tried = {"tried": "num_workers=2"} if is_tried else {}
        provenance = changed(
            session(1).provenance, command=tuple(command.split()), configuration=tried
        )
        runs[name] = session(1, others_cpu_share=0.99, provenance=provenance)
    [finding] = comparison_page.conclusions(compare(runs))
    assert finding.change.endswith(f"repeats:\nfor k in 1 2 3; {expected}")


def test_a_comparison_of_repeats_has_this_text(holds):
    provenance = session(1).provenance
    sides = [
        {f"{name}{k}": session(k + seed, model_ms=ms, provenance=provenance) for k in range(3)}
        for name, seed, ms in (("a", 1, 100.0), ("b", 5, 120.0))
    ]
    holds("comparison_repeats.txt", comparison_page.render_comparison_text(compare(*sides)))


def test_changes_have_their_sign_and_amounts_their_units():
    shares = {0.123: "+12 %", -0.034: "−3.4 %", 0.0: "+0.0 %", 11.2: "+1,120 %"}
    assert {share: comparison_page.signed(share) for share in shares} == shares
    assert comparison_page.amount(25.34, "frames/s") == "25.3 frames/s"
    assert comparison_page.amount(1.5, "ms per frame") == "1.50 ms"
    assert comparison_page.amount(3 << 29, "bytes") == "1.50 GiB"


def test_names_and_commands_of_a_comparison_are_escaped():
    bad = "<script>alert(1)</script>"
    provenance = changed(session(1).provenance, command=("headrace", bad))
    assert bad not in comparison_page.render_comparison(
        compare({bad: session(1), "b": session(2, provenance=provenance)})
    )


def test_the_warning_about_a_busy_machine_is_at_the_top_of_a_page():
    page = comparison_page.render_comparison(compare(COMPARISONS["busy"]))
    assert page.index("Other programs used 99") < page.index("<h1") < page.index("Inconclusive")
    launch = render_benchmark(launch_page(LAUNCHES["busy"]))
    assert launch.index("Other programs used 37") < launch.index("<h1")


CASES = {
    "three_digits": (0, 0.0469, 44.0, 53.87, 999.4, 999.6, 1149.9),
    "decimal": (0, 0.0469, 0.9999, 3.294, 9.996, 69.55, 99.96, 1234.4, -12.34),
    "seconds": (0, 0.024, 4.93, 119.94, 119.96, 309, 3599.6, 3725),
    "milliseconds": (229.8, None),
    "percent": (0, 0.0001, 0.003, 0.974, 0.997, 0.9999, 1),
    "megabytes": (23_413_500,),
    "gibibytes": (32 << 30,),
    "ratio": ((2.912, 1.0, 9.655),),
}
PATHS = (
    *("a.mp4", "videos/train/a.mp4", "/data/videos/train/a.mp4"),
    "a_name_that_is_longer_than_all_of_it.mp4",
)
SOURCES = (
    ("/data/a/door.mp4", "yard.mp4"),
    ("/data/a/cam.mp4", "/data/b/cam.mp4"),
    ("/dev/video0", "test://?seed=1"),
    ("rtsp://***@192.168.100.200:554/Streaming/Channels/101",),
)


def test_numbers_and_names_have_this_text(holds):
    lines = [
        f"{name} {number}: {getattr(numbers, name)(number)}"
        for name, values in CASES.items()
        for number in values
    ]
    lines += [f"counted {count}: {numbers.counted(count, 'step')}" for count in (1, 4500)]
    lines += [f"shortened {path}: {numbers.shortened(path, 22)}" for path in PATHS]
    lines += [f"short {' '.join(names)}: {' '.join(short_names(names))}" for names in SOURCES]
    holds("numbers.txt", "\n".join(lines) + "\n")
