"""The workers of a launch beside each other, in words, as a table and as a page."""

import csv
from pathlib import Path

from headrace.profiling.session import Session
from headrace.profiling.usage import Usage
from headrace.report.launch import launch_page, render_launch_text, workers_csv, write_launch
from headrace.runs.launch.record import Figures, LaunchRecord, WorkerRecord
from report.chromium import Page
from report.recorded import record
from report.test_html_browser import DRAWN

USAGE = Usage(cpu_seconds=120.0, peak_memory_bytes=1 << 30)


def worker(
    name: str,
    session: Session | None,
    outcome: str = "complete",
    others: float | None = None,
    **more: object,
):
    return WorkerRecord(
        name=name,
        folder=f"out/{name}",
        command=("headrace", "run", "a.mp4", "--out", f"out/{name}"),
        outcome=outcome,
        figures=Figures.of(session, others) if session else None,
        **more,
    )


def launched(*workers: WorkerRecord, others: float | None = None) -> LaunchRecord:
    return LaunchRecord(
        provenance=record(steps=1).provenance, workers=workers, others_cpu_share=others
    )


def both() -> LaunchRecord:
    return launched(
        worker("cars", record(usage=USAGE), began_ms=0.0),
        worker("people", record((70.0, 24.0, 115.0, 31.0)), began_ms=0.4),
    )


def test_the_workers_stand_beside_each_other_with_what_was_found() -> None:
    text = render_launch_text(both())
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "2 workers came to the end: cars and people."
    assert "worker cars people" in lines
    assert "frames/s 69.5 139" in lines
    assert "CPU 2 min 00 s –" in lines
    assert "- They began within 0.400 ms of each other." in lines
    assert "All of them ran at the same time for 35.8 s, 52 % of the longest run; the" in text
    assert any(line.startswith("cars: Bound by the model") for line in lines)


def test_those_that_did_not_come_to_the_end_are_named_first() -> None:
    failed = worker(
        "people", None, "died", error="killed (signal 9, SIGKILL) after 7 steps", exit_code=-9
    )
    page = launch_page(launched(worker("cars", record()), failed))
    assert page.title == "people did not come to the end; cars did."
    assert page.findings[-1].headline == "people was killed (signal 9, SIGKILL) after 7 steps"
    assert page.table.rows[-1] == ("outcome", "complete", "died")


def test_what_other_programs_took_is_said_above_and_for_each_worker() -> None:
    """Each worker's own share counts its siblings; for the launch they are no other programs."""
    sessions = {"cars": record(others_cpu_share=0.62), "people": record(others_cpu_share=0.44)}

    def beside(others: float) -> LaunchRecord:
        return launched(*(worker(*each, others=others) for each in sessions.items()), others=others)

    lines = [" ".join(line.split()) for line in render_launch_text(beside(0.37)).splitlines()]
    assert lines[0].startswith("! Other programs used 37 % of the processor time meanwhile")
    assert "others 62 % 44 %" in lines
    assert any(
        line.startswith("cars: Bound by the model, as far as a busy machine lets") for line in lines
    )
    rows = list(csv.DictReader(workers_csv(beside(0.37)).splitlines()))
    assert [row["others_cpu_share"] for row in rows] == ["0.62", "0.44"]
    quiet = launch_page(beside(0.02))
    assert quiet.banner is None
    assert [each.headline for each in quiet.findings if "busy machine" in each.headline] == []


def test_many_workers_stand_below_each_other() -> None:
    page = launch_page(launched(*(worker(f"w{k}", record(steps=40)) for k in range(5))))
    assert page.table.heads[0] == "worker"
    assert [row[0] for row in page.table.rows] == ["w0", "w1", "w2", "w3", "w4"]


def test_the_table_holds_numbers_without_units() -> None:
    rows = list(csv.DictReader(workers_csv(both()).splitlines()))
    assert rows[0]["worker"] == "cars"
    assert float(rows[0]["fps"]) > 60
    assert float(rows[0]["exec_ms_per_frame"]) > 14
    assert (rows[0]["peak_memory_bytes"], rows[1]["peak_memory_bytes"]) == (str(1 << 30), "")
    assert float(rows[1]["began_ms"]) == 0.4


def test_the_page_is_drawn_and_fits_its_window(page: Page, tmp_path: Path) -> None:
    write_launch(both(), tmp_path)
    for width in (1280, 390):
        for scheme in ("light", "dark"):
            page.show(tmp_path / "report.html", width=width, scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") == width
            drawn = page.evaluate(DRAWN)
            assert [(name, traces) for name, _, traces, _ in drawn] == [
                ("chart-throughput", 1),
                ("chart-work", 4),
            ]
            page.screenshot(tmp_path / f"launch-{width}-{scheme}.png")
    assert page.console == []
