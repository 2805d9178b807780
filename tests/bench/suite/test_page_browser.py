"""The report of a suite in a real browser: every chart drawn, nothing wider than the window."""

from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs

from bench import (
    test_cameras,
    test_live,
    test_overlap,
    test_sampling,
    test_scenarios,
    test_workers,
)
from bench.suite.fakes import FAILING, result, write_suite
from headrace.bench.registry import BENCHMARKS
from headrace.bench.suite.ranking import rank
from headrace.bench.suite.suite_page import write_page
from report.chromium import Page
from report.test_html_browser import DRAWN

RECORDS = {
    "workers": test_workers.recorded(test_workers.USUAL),
    "sampling": test_sampling.recorded(
        test_sampling.turns("baseline", [500]), test_sampling.turns("look-ahead", [4000])
    ),
    "cameras": test_cameras.MEASURED,
    "overlap": test_overlap.recorded(test_overlap.USUAL),
    "scenarios": test_scenarios.recorded(*test_scenarios.USUAL),
    "live": test_live.recorded(*test_live.USUAL),
}


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, list[str]]:
    """Return the page of a suite of real benchmarks, and the names of its charts."""
    known = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    why = "a_name_without_a_place_to_break_" * 4
    suite = write_suite(
        tmp_path,
        {known[name]: record for name, record in RECORDS.items()},
        result(FAILING, outcome="failed", why=why),
    )
    ranking = rank((*BENCHMARKS, FAILING), suite, tmp_path)
    charts = [f"chart-{chart.name}" for ranked in ranking.ranked for chart in ranked.charts]
    return write_page(ranking, tmp_path), charts


def test_every_chart_is_drawn_and_the_page_fits_its_window(
    page: Page, written: tuple[Path, list[str]], tmp_path: Path
) -> None:
    file, charts = written
    assert len(charts) == len(set(charts)) >= 10
    for width in (1280, 390):
        page.show(file, width=width)
        for scheme in ("light", "dark"):
            page.use_scheme(scheme)
            drawn = page.evaluate(DRAWN)
            assert [name for name, *_ in drawn] == charts
            assert all(drawings > 0 < traces for _, drawings, traces, _ in drawn)
            assert all(0 < wide <= width for *_, wide in drawn)
            assert page.evaluate("document.documentElement.scrollWidth") == width
            page.screenshot(tmp_path / f"suite-{width}-{scheme}.png")
    assert page.console == []
    assert page.requested == [file.as_uri()] * 2


def test_each_finding_links_to_its_section(page: Page, written: tuple[Path, list[str]]) -> None:
    page.show(written[0], width=1280)
    lost = (
        "[...document.querySelectorAll('.gains a')].filter(link => "
        "!document.querySelector(link.getAttribute('href'))).length"
    )
    assert page.evaluate("document.querySelectorAll('.gains a').length") == len(RECORDS)
    assert page.evaluate(lost) == 0


def test_without_the_script_of_the_charts_the_page_is_small(
    written: tuple[Path, list[str]],
) -> None:
    text = written[0].read_text(encoding="utf-8")
    assert len(text.encode()) - len(get_plotlyjs().encode()) < 1_000_000
    assert text.count(get_plotlyjs()[:200]) == 1
