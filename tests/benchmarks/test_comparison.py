"""The tables of every frame and of random frames: failures, wrong frames, costs, the headline."""

import pytest

from benchmark_fakes import result, row
from benchmarks.bench_random_frames import headline, random_access
from benchmarks.bench_sequential import sequential
from benchmarks.equality import Equality

WRONG = Equality(frames=1200, missing=2, wrong=3, max_mean_difference=0.0)
LIBRARIES = result(
    row("headrace", [1045, 1140, 1210], decoded=1212),
    row("pyav_loop", [1100, 1300, 1100]),
    row("opencv", failure="no decoder"),
    row("decord", equality=WRONG),
)
SEQUENTIAL = """\
| library | web: frames/s | of the limit | amplification (web) | CPU ms per frame (web) | peak memory |
| --- | ---: | ---: | ---: | ---: | ---: |
| **headrace** | 1,140 (1,045–1,210) | 0.95 | 1.01 | 2.00 | 100 MiB |
| bare PyAV loop (the limit) | 1,100 (1,100–1,300) | 1.00 |  | 2.00 | 100 MiB |
| OpenCV, area | failed: no decoder |  |  |  |  |
| decord | wrong frames: 5 of 1,200 |  |  |  |  |

Median of 3 interleaved rounds (lowest–highest), each library in its own process on the same 2 \
cores; *of the limit* is the median of the ratios within a round.
H.264, 1280×720 to 256×256 RGB. *web*: 4 videos, 1,200 frames, mean GOP 77, 69% B-frames.
Equal frames were proved first: none differs from the limit's by more than 0.25 grey levels in \
the mean.
Other work took more than 5% of the CPU time in 0 of 6 runs, 0% in the worst. Some CPU, 2 cores, \
8 GiB; Some Linux; CPython 3.11.7; headrace at 0123abc, 2026-11-21.
headrace 1.0; pyav_loop 1.0; opencv 1.0; decord 1.0.
Not measured: other codecs, 10-bit video, decoding on a GPU, other numbers of cores."""  # noqa: E501
FEW = Equality(frames=256, missing=0, wrong=5, max_mean_difference=0.5)
WAYS = result(
    row("baseline", [10, 20, 40], memory_bytes=100 << 20),
    row("opencv", equality=FEW),
    row("spdl", failure="no | index"),
    row("torchcodec", [20, 60, 40], others_cpu_seconds=2.4, memory_bytes=100 << 20),
    row("headrace_1GiB", [400, 500, 800], decoded=1800, memory_bytes=100 << 20),
    seconds=8.0,
    batch_size=8,
    clip="16,2",
)
RANDOM = [
    "| way | web: frames/s | times the first | amplification (web) | CPU ms per frame (web) "
    "| memory |",
    "| --- | ---: | ---: | ---: | ---: | ---: |",
    "| DataLoader, 2 workers, PyAV: open and seek for each frame | 20 (10–40) | 1.0 |  | 2.0 |  |",
    "| OpenCV, captures kept, grouped by file | wrong frames: 5 of 256 |  |  |  |  |",
    "| SPDL, packets kept, grouped by file | failed: no / index |  |  |  |  |",
    "| torchcodec, decoders kept, grouped by file | 40 (20–60) | 2.0 |  | 2.0 | 100 MiB |",
    "| **headrace**, 1 GiB | 500 (400–800) | 25.0 | 1.50 | 2.0 | 100 MiB |",
]


def test_every_frame_keeps_what_failed_and_what_was_wrong() -> None:
    assert sequential(LIBRARIES) == SEQUENTIAL


def test_random_access_keeps_what_failed_and_what_was_wrong() -> None:
    assert random_access(WAYS).splitlines()[: len(RANDOM)] == RANDOM


def test_the_notes_say_what_was_asked_how_exactly_and_how_quiet_it_was() -> None:
    notes = random_access(WAYS).split("\n\n")[1]
    assert notes.startswith("Batches of 8 clips of 16 frames, 2 apart, drawn uniformly")
    assert "3 interleaved rounds (lowest–highest) of at least 8 s each" in notes
    assert "none differs from a linear decode by more than 0.50 grey levels" in notes
    assert "more than 5% of the CPU time in 3 of 9 runs, 50% in the worst" in notes


def test_a_way_with_fewer_rounds_than_the_first_has_no_ratio() -> None:
    rows = (row("baseline", [10, 20, 40]), row("decord", [20]))
    table = random_access(WAYS.model_copy(update={"rows": rows}))
    [line] = [each for each in table.splitlines() if each.startswith("| decord")]
    assert line.split(" | ")[1:3] == ["20 (20–20)", ""]


FRAMES = result(
    row("baseline", [10, 20, 40]),
    row("headrace_256MiB", [90, 180, 360]),
    row("headrace_1GiB", [400, 1100, 1600]),
    batch_size=128,
)


def test_it_says_how_many_times_as_fast_and_on_what() -> None:
    first, chart, measured, told = headline(FRAMES, None, "<svg>").split("\n\n")
    assert first.startswith("**Random frames, each the exact one, at 40 times the speed")
    assert chart == "<svg>"
    assert measured == (
        "Batches of 128 uniformly random frames of 4 videos, H.264, 1280×720 to 256×256, on 2 "
        "cores, once the look-ahead is filled:"
    )
    assert told == (
        "- *web* (mean GOP 77, 69% B-frames): 1,100 frames/s within 1 GiB, 40 times the "
        "DataLoader's 20; 180 within 256 MiB, 9.0 times."
    )


def test_where_less_is_won_is_said_too() -> None:
    many = result(
        row("headrace", [2000], kind="10 files", lookahead=500, warm_up_frames=500),
        row("headrace", [30], kind="1,000 files", lookahead=5000, warm_up_frames=900),
        memory_budget="1GiB",
        warm_up_seconds=60.0,
    )
    assert headline(FRAMES, many, "").splitlines()[-1] == (
        "- 1,000 files within 1GiB: 30 frames/s after 60 s, the look-ahead still being filled."
    )


def test_a_way_that_was_not_timed_is_named() -> None:
    without = FRAMES.model_copy(update={"rows": FRAMES.rows[:2]})
    with pytest.raises(ValueError, match="tells of headrace_1GiB on web, which was not timed"):
        headline(without, None, "")
