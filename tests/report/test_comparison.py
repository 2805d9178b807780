"""A comparison in words and as a page."""

import re
from pathlib import Path

import pytest

from headrace.profiling.comparison.comparison import compare
from headrace.profiling.usage import Usage
from headrace.report.comparison import (
    amount,
    conclusion,
    render_comparison,
    render_comparison_text,
    signed,
)
from profiling.comparison.simulated import session
from report.chromium import Page
from report.test_html_browser import DRAWN


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.123, "+12 %"), (-0.034, "−3.4 %"), (0.0, "+0.0 %"), (11.2, "+1,120 %")],
)
def test_a_change_has_its_sign(share: float, words: str) -> None:
    assert signed(share) == words


def test_amounts_have_their_units() -> None:
    assert amount(25.34, "frames/s") == "25.3 frames/s"
    assert amount(1.5, "ms per frame") == "1.50 ms"
    assert amount(3 << 29, "bytes") == "1.50 GiB"


def test_the_conclusion_is_about_throughput_and_says_when_it_is_not_known() -> None:
    runs = {"a": session(1), "b": session(3, model_ms=150.0), "c": session(4, steps=20)}
    slower, short = (conclusion(run, "a") for run in compare(runs).runs)
    assert slower.headline.startswith("b is slower than a: −3")
    assert any(line.startswith("The model: +49 %") for line in slower.evidence)
    assert short.headline == "c against a: too few steps to tell a difference in throughput."


def test_a_comparison_on_a_busy_machine_cannot_be_told_and_says_what_to_do() -> None:
    made = session(1).provenance
    runs = {
        name: session(
            seed,
            model_ms=model_ms,
            others_cpu_share=share,
            provenance=made.model_copy(
                update={"command": ("headrace", "run", "a b.mp4", "--out", name)}
            ),
        )
        for name, seed, model_ms, share in (("eq0", 1, 100.0, 0.02), ("eq1", 3, 150.0, 0.99))
    }
    found = compare(runs)
    text = render_comparison_text(found)
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == "! Other programs took 99 % of the processor time during eq1."
    assert lines[2].startswith("Cannot be told whether eq1 is faster or slower than eq0: other")
    assert (
        "for k in 1 2 3; do headrace run 'a b.mp4' --out eq0_$k; headrace run 'a b.mp4' "
        "--out eq1_$k; done" in " ".join(lines)
    )
    assert "slower than eq0: −" not in text
    page = render_comparison(found)
    assert page.index("Other programs took 99") < page.index("<h1") < page.index("Cannot be told")


def test_names_and_commands_are_shown_and_never_run(tmp_path: Path) -> None:
    bad = "<script>alert(1)</script>"
    made = session(1).provenance.model_copy(update={"command": ("headrace", bad)})
    page = render_comparison(compare({bad: session(1), "b": session(2, provenance=made)}))
    assert bad not in page


def test_the_page_is_drawn_and_fits_its_window(page: Page, tmp_path: Path) -> None:
    made = session(1).provenance
    other = made.model_copy(update={"configuration": {**made.configuration, "weights": "x" * 300}})
    runs = {"before": session(1), "after": session(2, model_ms=120.0, provenance=other)}
    file = tmp_path / "comparison.html"
    file.write_text(render_comparison(compare({**runs, "third": session(3)})), encoding="utf-8")
    for width in (1280, 390):
        for scheme in ("light", "dark"):
            page.show(file, width=width, scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") == width
            drawn = page.evaluate(DRAWN)
            assert [(name, count > 0) for name, count, *_ in drawn] == [
                ("chart-changes-0", True),
                ("chart-changes-1", True),
            ]
            page.screenshot(tmp_path / f"compare-{width}-{scheme}.png")
    assert page.console == []


def test_a_figure_without_an_interval_says_why_it_has_none() -> None:
    usage = Usage(cpu_seconds=9.0, peak_memory_bytes=2**30)
    found = compare(
        {"a": session(1, steps=20, usage=usage), "b": session(2, steps=20, usage=usage)}
    )
    rows = [re.split(r" {2,}", line.strip()) for line in render_comparison_text(found).splitlines()]
    verdicts = {row[0]: row[-1] for row in rows if "–" in row}
    assert verdicts["Throughput"] == verdicts["The model, per frame"] == "too few steps"
    assert verdicts["CPU time, per frame"] == verdicts["Peak memory"] == "one number a run"
