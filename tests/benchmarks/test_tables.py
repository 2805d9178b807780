"""Tables and summaries of results, compared as a whole with `pages/`.

These cover failures, wrong frames, missing variants and a disturbed machine. Tables of successful
runs come from the saved results: see `test_the_pages_are_up_to_date`.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmark_fakes import conformed, origin, overlap_case, overloaded, result, row, soaked
from benchmarks import bench_cores, bench_plan, bench_predictions
from benchmarks.bench_cores import CoresResult, Planning, Scanning, time_loaders, variants
from benchmarks.bench_extract import CASES, extracting, kind
from benchmarks.bench_extract_memory import MemoryResult, Sample
from benchmarks.bench_features import FeaturesResult, features
from benchmarks.bench_live import LiveResult, live
from benchmarks.bench_overhead import VARIANTS, OverheadResult, render
from benchmarks.bench_plan import PlanRow
from benchmarks.bench_random_frames import headline, random_access
from benchmarks.bench_remote import RemoteRepeat, RemoteResult, RemoteRow, remote
from benchmarks.bench_scaling import scaling
from benchmarks.bench_sequential import sequential
from benchmarks.bench_startup import startup
from benchmarks.conformance import draws, verdict
from benchmarks.conformance.verdict import HEADRACE, DrawRow, DrawsResult, Verdict
from benchmarks.equality import Equality
from benchmarks.gpu_check import step as gpu_check
from benchmarks.gpu_check.step import GpuCheckResult, StepRow
from benchmarks.live.figures import Quantiles
from benchmarks.live.recovering import Recovering, Recovery
from benchmarks.live.rivals import Rivals, Shown, Streaming
from benchmarks.live.threads import Overlap, OwnCost, compare_ages
from benchmarks.record import Repeat, Row, Rows
from benchmarks.soak import soak

PAGES = Path(__file__).parent / "pages"
MIB = 2**20


def timed(name, kind, *walls, **fields):
    """Return a row with repeats of these wall times."""
    repeats = tuple(Repeat(wall_seconds=seconds, **fields) for seconds in walls)
    return Row(name=name, kind=kind, repeats=repeats)


LIBRARIES = result(
    row("headrace", [1045, 1140, 1210], decoded=1212),
    row("pyav_loop", [1100, 1300, 1100]),
    row("opencv", failure="no decoder"),
    row("decord", equality=Equality(frames=1200, missing=2, wrong=3, max_mean_difference=0.0)),
)
CLIPS = result(
    row("baseline", [10, 20, 40], memory_bytes=100 * MIB),
    row("opencv", equality=Equality(frames=256, missing=0, wrong=5, max_mean_difference=0.5)),
    row("spdl", failure="no | index"),
    row("torchcodec", [20, 60, 40], others_cpu_seconds=2.4, memory_bytes=100 * MIB),
    row("decord", [20]),
    row("headrace_1GiB", [400, 500, 800], decoded=1800, memory_bytes=100 * MIB),
    **{"seconds": 8.0, "batch_size": 8, "clip": "16,2"},
)
FRAMES = result(
    row("baseline", [10, 20, 40]),
    row("headrace_256MiB", [90, 180, 360]),
    row("headrace_1GiB", [400, 1100, 1600]),
    batch_size=128,
)
SMALL = Repeat(
    **{"scan_seconds": 0.2, "open_seconds": 0.01, "first_seconds": 1.5},
    **{"lookahead": 5000, "warm_up_frames": 5120, "frames": 20_000, "decoded": 16_000},
    **{"wall_seconds": 20.0, "cpu_seconds": 38.0, "others_cpu_seconds": 2.5},
    **{"open_files": 10, "memory_bytes": 900 * MIB},
)
LARGE = SMALL.model_copy(
    update={
        **{"scan_seconds": 160.0, "open_seconds": 11.4, "warm_up_frames": 2048, "frames": 640},
        **{"decoded": 20_480, "others_cpu_seconds": 0.0, "open_files": 93},
    }
)
STORED = SMALL.model_copy(
    update={"scan_seconds": None, "warm_up_frames": 128, "written_bytes": 18_000_000_000}
)
SETS = (
    Row(name="headrace", kind="10 files", repeats=(SMALL,)),
    Row(name="headrace", kind="1,000 files", failure="killed | out of memory"),
    Row(name="headrace, spill, first epoch", kind="1,000 files", repeats=(STORED,)),
    Row(name="headrace", kind="10,000 files", repeats=(LARGE,)),
)
SCALED = {"batch_size": 128, "memory_budget": "1GiB", "warm_up_seconds": 60.0, "seconds": 20.0}
SCALED |= {"videos": 40}


def cores(others):
    """Return a result in which two processes are twice as fast as one, and two threads are not."""
    times = {"wall_seconds": 1.0, "cpu_seconds": 1.0, "frames": 500, "others_cpu_seconds": others}
    answer = {**times, "requests": 0, "checksum": 1}
    loaders = [*variants(is_quick=False)]
    rows = time_loaders([], {"seconds": 1.0}, loaders, lambda request: dict(answer))
    return CoresResult(
        provenance=origin(),
        compared=16,
        loading=tuple(rows),
        planning=(Planning(files=100, lookahead=1_000, requests=1_000, seconds=0.01),),
        scanning=(Scanning(way="loader", files=200, seconds=2.0),),
    )


def memory(*sizes):
    """Return a run with the memory of three processes in MiB, second by second."""
    samples = [Sample(seconds=0.0, num_bytes=1, processes=1)]
    samples += [
        Sample(seconds=1.0 + n, num_bytes=size * MIB, processes=3) for n, size in enumerate(sizes)
    ]
    fields = {"pictures": 1800, "media_seconds": 3600.0, "wall_seconds": 100.0}
    return MemoryResult(provenance=origin(), samples=tuple(samples), **fields)


def extracted(name, size, *walls):
    """Return a row of the first case on one core."""
    fields = {"frames": 80, "written_bytes": 80 * size, "cpu_seconds": 4.0}
    return timed(name, kind(CASES[0], 1), *walls, **fields)


EXTRACT = result(
    extracted("headrace", 100_000, 4.0, 5.0), extracted("ffmpeg", 78_000, 2.0, 5.0), cores=2
)


KNOWN = Repeat(wall_seconds=0.5, memory_bytes=5 * 10**6, written_bytes=2_000_000)
PLANS = Rows[PlanRow](
    provenance=origin(),
    rows=(
        PlanRow(hours=10.0, videos=450, failure="no memory"),
        PlanRow(hours=1.0, videos=45, new=Repeat(wall_seconds=5.0), known=KNOWN),
    ),
)


def stored():
    """Return variants with their requests to a store."""
    counts = {"reads": 7, "read_bytes": 70, "seeks": 2, "requests": 3, "sent_bytes": 15_000_000}
    repeat = RemoteRepeat(wall_seconds=2.0, frames=10, **counts)
    http = {"way": "fsspec_http", "latency_ms": 20}
    rows = [
        RemoteRow(**variant, pattern=pattern, repeats=(repeat,))
        for variant in ({"way": "python_file"}, http)
        for pattern in ("scan", "every")
    ]
    rows.append(RemoteRow(**http, pattern="random", failure="no aiohttp"))
    return RemoteResult(
        provenance=origin(repeats=3), file_bytes=12_000_000, frames=2400, rows=tuple(rows)
    )


def featured(others, **walls):
    """Return variants with these wall times, and the CPU seconds of other programs."""
    rows = tuple(
        Row(
            name=name.replace("_again", ", again").replace("_quarter", ", a quarter"),
            repeats=(Repeat(wall_seconds=s, cpu_seconds=1.0, others_cpu_seconds=others),),
        )
        for name, s in walls.items()
    )
    provenance = origin(rate=5, count=8, repeats=1)
    return FeaturesResult(provenance=provenance, rows=rows, least_cosine=0.99999)


def costs(empty, **walls):
    """Return a result with the step time of each variant in each round."""
    rows = [
        Row(name=name, repeats=[Repeat(wall_seconds=s, cpu_seconds=2 * s) for s in walls[name]])
        for name in VARIANTS
    ]
    return OverheadResult(provenance=origin(), rows=tuple(rows), empty_step_seconds=empty)


BARE = (0.010, 0.020, 0.040)
SLOWER = {"recorded": (0.011, 0.020, 0.041), "nvtx": BARE, "trace": (0.020, 0.040, 0.080)}
TURNS = costs((0.0002, 0.0001, 0.0003), bare=BARE, **SLOWER)


PREDICTED = bench_predictions.PredictionsResult(
    provenance=origin(),
    changes=(
        bench_predictions.Prediction(change="--no-video", predicted=2.0, measured=(1.9, 2.1, 2.0)),
        bench_predictions.Prediction(change="--threads 1", predicted=None, measured=(0.9,)),
    ),
)


def loader(strategy, predicted, **cpu):
    """Return a loader of 200 frames per second."""
    return bench_predictions.LoaderPrediction(
        kind="web",
        memory="256MiB",
        strategy=strategy,
        predicted=predicted,
        predicted_amplification=2.5,
        came=Repeat(wall_seconds=10.0, frames=2_000, decoded=5_200, **cpu),
    )


LOADERS = bench_predictions.LoadersResult(
    provenance=origin(),
    loaders=(
        loader("look-ahead", 190.0),
        loader("packed", 250.0, cpu_seconds=18.0, others_cpu_seconds=2.0),
    ),
)


def costing(rate):
    """Return the added latency of one frame, at `rate` frames per second."""
    case = compare_ages("none", [[(10.0, 9.0)]], [[(12.5, 9.5)]], rate=rate, proved=30)
    return OwnCost(provenance=origin(rate=rate), definition="The definition.", cases=(case,))


AGES = Quantiles(count=99, p50=5.0, p95=7.0, worst=9.0)
SHOWN = (
    Shown(way="headrace", frames=99, per_second=30.0, age_ms=AGES),
    Shown(way="opencv_loop", failure="no module cv2"),
)
STREAMING = Streaming(model_ms=0.0, seconds=9.0, warm_up_seconds=1.0, shown=SHOWN)
RIVALS = Rivals(
    provenance=origin(max_staleness="200ms"),
    keeping_up=STREAMING,
    overloaded=STREAMING.model_copy(update={"model_ms": 100.0}),
    recovery=(
        Recovery(way="headrace", first_picture_seconds=0.5, noticed_seconds=(1.5,)),
        Recovery(way="opencv_loop", failure="no module cv2"),
    ),
    left_out={"another": "it is not installed"},
)
RECOVERED = RIVALS.recovery[0].model_copy(
    update={"noticed_seconds": (1.5, None), "resumed_seconds": (0.1, 0.2), "again_seconds": (1, 2)}
)
LIVE = LiveResult(
    provenance=origin(),
    own_cost=costing(10),
    overload=overloaded(),
    overlap=Overlap(
        provenance=origin(),
        others_share=0.4,
        cases=(
            overlap_case(sequential=3.0, threaded=2.0, cpu=3.0),
            overlap_case(sequential=3.0, threaded=2.0, cpu=4.0),
        ),
    ),
    rtsp=Recovering(provenance=origin(), found=(RECOVERED,)),
    rivals=RIVALS,
)


def drawn(number, **outcomes):
    """Return a file with one verdict."""
    verdicts = (Verdict(party=HEADRACE, way="jobs", **outcomes),)
    return DrawRow(number=number, name="x", codec="h264", container="ts", verdicts=verdicts)


DRAWN = [drawn(0, right=9), drawn(1, right=8, refused_with=1), drawn(2, wrong=2, right=3)]
DRAWN.append(DrawRow(number=3, name="y", codec="vp8", not_made="no encoder"))
WIDE = tuple("a column that is rather wide" for _ in range(5))


def step(name, outcome, **fields):
    """Return the row of a step of the GPU check."""
    fields |= {"asks": "something", "command": (), "limit_seconds": 60.0}
    return StepRow(name=name, outcome=outcome, **fields)


CHECKED = GpuCheckResult(
    provenance=origin().model_copy(update={"created": datetime(2026, 11, 21, 4, 5, tzinfo=UTC)}),
    is_rehearsal=True,
    rows=(
        step("machine", "passed", seconds=1.25, said="a machine"),
        step("wide", "passed", seconds=10.0, said="so it is " * 30, heads=WIDE, rows=(WIDE,)),
        step("bad", "failed", seconds=2.0, why="exit status 1", last_lines=("a", "x" * 500)),
        step("nvdec", "not run", why="no NVDEC here: the driver lacks it"),
    ),
)
FEATURED = {"bare": 9.0, "bare_quarter": 3.0, "none": 10.0, "none_quarter": 4.0}
FEATURED |= {"sqlite_again": 0.25}
STARTED = result(
    timed("import headrace", "", 0.010, 0.030, 0.020),
    Row(name="headrace --help", failure="exit status 1"),
)
TABLES: Mapping[str, Callable[[], str]] = {
    "sequential": lambda: sequential(LIBRARIES),
    "random_clips": lambda: random_access(CLIPS),
    "headline": lambda: headline(FRAMES, None, "<svg>"),
    "scaling": lambda: scaling(result(*SETS, **SCALED)),
    "scaling_filled": lambda: scaling(result(SETS[0], **SCALED)),
    "startup": lambda: startup(STARTED),
    "cores_disturbed": lambda: bench_cores.loading(cores(1.0)),
    "extract": lambda: extracting(EXTRACT),
    "plan": lambda: bench_plan.planning(PLANS),
    "remote": lambda: remote(stored()),
    "features": lambda: features(featured(0.0, **FEATURED)),
    "features_disturbed": lambda: features(featured(1.0, bare=9.0, none=10.0)),
    "overhead": lambda: render(TURNS),
    "predictions": lambda: bench_predictions.predictions(
        PREDICTED.model_copy(update={"loaders": LOADERS})
    ),
    "live": lambda: live(LIVE),
    "live_behind": lambda: live(LiveResult(provenance=origin(), own_cost=costing(200))),
    "soak": lambda: soak(soaked(threads=soaked().rss_bytes, outcome="failed")),
    "conformance": lambda: verdict.render(conformed()),
    "draws": lambda: draws.render(DrawsResult.of(origin(), 0, DRAWN)),
    "gpu_check": lambda: gpu_check.render(CHECKED),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_equals_its_page(name):
    assert TABLES[name]() + "\n" == (PAGES / f"{name}.md").read_text("utf-8")


def test_the_summary_of_a_gpu_check_fits_into_80_columns():
    assert max(map(len, gpu_check.render(CHECKED).splitlines())) <= 80


def test_a_missing_variant_is_named():
    without = FRAMES.model_copy(update={"rows": FRAMES.rows[:2]})
    with pytest.raises(ValueError, match="needs headrace_1GiB on web, which was not timed"):
        headline(without, None, "")


def test_the_slowest_set_without_a_full_lookahead_is_shown_with_spill():
    on_disk = Row(name="headrace, spill, first epoch", kind="10,000 files", repeats=(STORED,))
    last = headline(FRAMES, result(*SETS, on_disk, **SCALED), "").splitlines()[-1]
    assert last == (
        "- 10,000 files within 1 GiB: 32 frames/s after 60 s, before the lookahead is full; "
        "with `spill`, 1,000 in the first epoch."
    )


def test_memory_is_compared_by_quarters_without_start_and_end():
    run = memory(50, 100, 100, 110)
    assert [run.quarter(n) / MIB for n in range(4)] == [50, 100, 100, 110]
    assert run.growth == pytest.approx(0.1)


def test_all_draws_are_counted_and_the_rows_of_faults_kept():
    draws_result = DrawsResult.of(origin(), 0, DRAWN)
    assert [row.number for row in draws_result.faults] == [2]
    assert [count.what for count in draws_result.codecs] == ["h264"]
    assert (draws_result.total.draws, draws_result.not_made) == (3, 1)
