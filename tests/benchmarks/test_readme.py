"""Tests of benchmarks/readme.py, tables.py and chart.py: the page says what the results say."""

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks.chart import THEMES, sequential_chart
from benchmarks.equality import Equality
from benchmarks.readme import main, replace_block
from benchmarks.record import (
    Conditions,
    Repeat,
    Row,
    SequentialResult,
    StartupResult,
    Timing,
)
from benchmarks.tables import sequential, startup

CONDITIONS = Conditions(
    date="2026-11-21",
    cpu="Some CPU",
    cores=2,
    memory_bytes=8 << 30,
    system="Some Linux",
    python="CPython 3.11.7",
    commit="0123abc",
    parameters={"size": [256, 256], "workers": 2, "repeats": 3},
    media={
        "recipe": {"size": [720, 1280]},
        "kinds": {"web": {"videos": 4, "frames": 1200, "mean_gop": 77.4, "b_frame_share": 0.69}},
    },
)
EQUAL = Equality(frames=1200, missing=0, wrong=0, max_mean_difference=0.25)
WRONG = Equality(frames=1200, missing=2, wrong=3, max_mean_difference=0.0)


def repeat(speed: float, decoded: int | None = None) -> Repeat:
    return Repeat(
        wall_seconds=1200 / speed,
        first_seconds=0.1,
        cpu_seconds=2.4,
        others_cpu_seconds=0.0,
        frames=1200,
        decoded_frames=decoded,
        peak_rss_bytes=100 << 20,
    )


def row(
    library: str,
    speeds: Sequence[float] = (),
    *,
    equality: Equality = EQUAL,
    failure: str | None = None,
    decoded: int | None = None,
) -> Row:
    return Row(
        library=library,
        kind="web",
        equality=equality,
        versions={library: "1.0"},
        repeats=tuple(repeat(speed, decoded) for speed in speeds),
        failure=failure,
    )


RESULT = SequentialResult(
    conditions=CONDITIONS,
    rows=(
        row("headrace", [1045, 1140, 1210], decoded=1212),
        row("pyav_loop", [1100, 1300, 1100]),
        row("opencv", failure="no decoder"),
        row("decord", equality=WRONG),
    ),
)
TABLE = """\
| library | web: frames/s | of the limit | CPU ms per frame (web) | decoded ÷ delivered | peak memory |
| --- | ---: | ---: | ---: | ---: | ---: |
| **headrace** | 1,140 (1,045–1,210) | 0.95 | 2.00 | 1.01 | 100 MiB |
| bare PyAV loop (the limit) | 1,100 (1,100–1,300) | 1.00 | 2.00 |  | 100 MiB |
| OpenCV, area | failed: no decoder |  |  |  |  |
| decord | wrong frames: 5 of 1,200 |  |  |  |  |

Median of 3 interleaved rounds (lowest–highest), each library in its own process on the same 2 \
cores; *of the limit* is the median of the ratios within a round.
H.264, 1280×720 to 256×256 RGB. *web*: 4 videos, 1,200 frames, mean GOP 77, 69% B-frames.
Equal frames were proved first: none differs from the limit's by more than 0.25 grey levels in \
the mean.
Other work took at most 0% of the CPU time. Some CPU, 2 cores, 8 GiB; Some Linux; CPython 3.11.7; \
headrace at 0123abc, 2026-11-21.
headrace 1.0; pyav_loop 1.0; opencv 1.0; decord 1.0.
Not measured: other codecs, 10-bit video, decoding on a GPU, other numbers of cores."""  # noqa: E501


def test_the_table_keeps_what_failed_and_what_was_wrong() -> None:
    assert sequential(RESULT) == TABLE


def test_the_startup_table_has_medians_in_milliseconds() -> None:
    timings = (
        Timing(name="import headrace", seconds=(0.010, 0.030, 0.020)),
        Timing(name="headrace --help", failure="exit status 1"),
    )
    lines = startup(StartupResult(conditions=CONDITIONS, timings=timings)).splitlines()
    assert lines[2:4] == [
        "| `import headrace` | 20.0 (10.0–30.0) ms |",
        "| `headrace --help` | exit status 1 |",
    ]


@pytest.mark.parametrize("theme", THEMES)
def test_the_chart_has_a_bar_for_each_timed_library(theme: str) -> None:
    chart = ElementTree.fromstring(sequential_chart(RESULT, theme))
    texts = [element.text for element in chart.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[2:] == ["headrace", "1,140", "bare PyAV loop (the limit)", "1,100"]


def test_a_block_is_replaced_and_the_rest_kept() -> None:
    text = "a\n<!-- benchmark:x -->\nold\n<!-- /benchmark -->\nb <!-- /benchmark -->"
    new = "a\n<!-- benchmark:x -->\n\\1 new\n<!-- /benchmark -->\nb <!-- /benchmark -->"
    assert replace_block(text, "x", "\\1 new") == new
    assert replace_block(new, "x", "\\1 new") == new


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<!-- benchmark:x -->",
        "<!-- benchmark:y --><!-- /benchmark -->",
        "<!-- benchmark:x --><!-- /benchmark -->" * 2,
    ],
)
def test_missing_or_double_markers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="exactly once"):
        replace_block(text, "x", "new")


def test_the_check_sees_a_page_that_the_results_have_outgrown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("<!-- benchmark:sequential -->\n<!-- /benchmark -->\n", "utf-8")
    RESULT.save(tmp_path / "sequential.json")
    words = ["--readme", str(readme), "--results", str(tmp_path)]
    with pytest.raises(SystemExit, match="not what the results say: sequential-light"):
        main([*words, "--check"])
    main(words)
    assert TABLE in readme.read_text("utf-8")
    main([*words, "--check"])
    RESULT.model_copy(update={"rows": RESULT.rows[:2]}).save(tmp_path / "sequential.json")
    with pytest.raises(SystemExit, match=r"README\.md"):
        main([*words, "--check"])
