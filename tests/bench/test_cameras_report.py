"""What timed epochs of camera streams come to: medians, like compared with like, and words."""

from datetime import UTC, datetime

import pytest

from headrace.bench.cameras import CameraRun, CamerasRecord
from headrace.bench.cameras_report import CAMERAS, QUOTED, rows_of
from headrace.profiling.machine import describe_machine
from headrace.profiling.provenance import Provenance
from headrace.report.experiment import render_experiment, render_experiment_text


def run(way, ranks, workers, seconds, decoded=600, others=0.0):
    return CameraRun(
        way=way,
        ranks=ranks,
        workers=workers,
        seconds=seconds,
        delivered=600,
        decoded=decoded,
        cpu_seconds=3.0,
        others_cpu_seconds=others * seconds,
    )


def record(*runs):
    return CamerasRecord(
        provenance=Provenance(
            headrace="0.1.0",
            created=datetime(2026, 11, 21, tzinfo=UTC),
            command=("headrace", "bench", "cameras"),
            configuration={},
            machine=describe_machine(),
            versions={},
        ),
        clips=10,
        cameras=6,
        pictures=600,
        compared=96,
        runs=runs,
    )


MEASURED = record(
    run("decode", 1, 1, 4.0),
    run("loader", 1, 1, 5.0),
    run("decode", 2, 1, 2.0),
    run("loader", 2, 1, 2.5),
    run("wandering", 2, 1, 8.0, decoded=2400),
)


def test_a_way_is_compared_with_plain_decoding_by_as_many_ranks_and_workers():
    share = {(row.way, row.ranks): row.share for row in rows_of(MEASURED)}
    assert share == {
        ("decode", 1): 1,
        ("loader", 1): pytest.approx(0.8),
        ("decode", 2): 1,
        ("loader", 2): pytest.approx(0.8),
        ("wandering", 2): pytest.approx(0.25),
    }


def test_repeats_of_one_way_are_one_row_of_medians():
    again = record(
        *(run("decode", 1, 1, seconds) for seconds in (2.0, 4.0, 3.0)),
        *(run("loader", 1, 1, seconds) for seconds in (4.0, 5.0, 60.0)),
    )
    decode, loader = rows_of(again)
    assert (decode.rate.median, loader.rate.median) == (200, 120)
    assert loader.cpu_ms == pytest.approx(5)


def test_the_verdict_names_the_worst_the_best_and_the_example():
    found = CAMERAS.page(MEASURED).findings[0]
    assert found.headline == (
        "Where slots stay, every picture is decoded once, however many ranks and workers"
    )
    said = "\n".join(found.evidence)
    assert "at most 1.00 pictures are decoded for one delivered: CameraLoader, 1 rank" in said
    assert "The best reaches 80 % of plain decoding" in said
    assert "Where slots wander, up to 4.00 are decoded for one delivered" in said
    assert QUOTED in found.evidence


def test_the_advice_rests_on_the_same_ranks_and_workers():
    [finding] = CAMERAS.page(MEASURED).findings
    assert finding.change.endswith(
        ": 3.20 times the frames/s of slots that wander, CameraLoader, 2 ranks x 1 worker."
    )
    assert finding.advice.gain == pytest.approx(3.2)


def test_other_programs_that_took_the_processor_are_told():
    cores = describe_machine().usable_cores
    busy = record(
        run("decode", 1, 1, 4.0, others=cores),
        run("loader", 1, 1, 5.0),
        run("wandering", 1, 1, 10.0),
    )
    [finding] = CAMERAS.page(busy).findings
    assert any(line.startswith("Other programs kept up to") for line in finding.evidence)
    assert finding.change.endswith("(other programs ran meanwhile, so it is uncertain).")
    assert finding.advice is None


def test_a_picture_decoded_twice_is_not_called_once():
    found = CAMERAS.page(
        record(run("decode", 1, 1, 4.0), run("loader", 1, 1, 5.0, decoded=1200))
    ).findings[0]
    assert found.headline == "Where slots stay, pictures are decoded up to 2.00 times"


def test_page_and_text_have_every_row():
    experiment = CAMERAS.page(MEASURED)
    text = render_experiment_text(experiment)
    page = render_experiment(experiment).replace("&nbsp;", " ").replace("\N{NO-BREAK SPACE}", " ")
    for row in experiment.table.rows:
        assert all(cell in text for cell in row)
        assert [cell for cell in row if cell not in page] == []
    assert "chart-speed" in page
