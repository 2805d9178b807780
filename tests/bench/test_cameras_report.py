"""Rows and findings of timed camera epochs."""

import pytest

from bench.records import local_provenance
from headrace.bench.cameras import CAMERAS, CameraRun, CamerasRecord, rows_of


def run(way, ranks, workers, seconds, decoded=600, others=0.0):
    times = {"seconds": seconds, "cpu_seconds": 3.0, "others_cpu_seconds": others * seconds}
    read = {"delivered": 600, "decoded": decoded}
    return CameraRun(way=way, ranks=ranks, workers=workers, **times, **read)


def record(*runs):
    facts = {"clips": 10, "cameras": 6, "pictures": 600, "compared": 96}
    return CamerasRecord(provenance=local_provenance(), runs=runs, **facts)


MEASURED = record(
    run("decode", 1, 1, 4.0),
    run("loader", 1, 1, 5.0),
    run("decode", 2, 1, 2.0),
    run("loader", 2, 1, 2.5),
    run("wandering", 2, 1, 8.0, decoded=2400),
)


def test_a_variant_is_compared_with_plain_decoding_by_equal_ranks_and_workers():
    share = {(row.variant, row.first.ranks): row.share for row in rows_of(MEASURED)}
    expected = {("decode", 1): 1, ("loader", 1): 0.8, ("decode", 2): 1, ("loader", 2): 0.8}
    assert share == pytest.approx({**expected, ("wandering", 2): 0.25})


def test_repetitions_of_one_variant_are_one_row_of_medians():
    repeated = record(
        *(run("decode", 1, 1, seconds) for seconds in (2.0, 4.0, 3.0)),
        *(run("loader", 1, 1, seconds) for seconds in (4.0, 5.0, 60.0)),
    )
    decode, loader = rows_of(repeated)
    assert (decode.rate.median, loader.rate.median) == (200, 120)
    assert CAMERAS.page(repeated).table.rows[1][-2] == "5.00"


def test_findings_on_variants(check_pages):
    plain, loader = run("decode", 1, 1, 4.0), run("loader", 1, 1, 5.0)
    busy = (run("decode", 1, 1, 4.0, others=4), loader, run("wandering", 1, 1, 10.0))
    cases = {
        "slots stay and wander": MEASURED,
        "other programs ran": record(*busy),
        "decoded twice": record(plain, run("loader", 1, 1, 5.0, decoded=1200)),
        "plain decoding alone": record(plain),
        "clips were cut": MEASURED.model_copy(update={"pictures_read": 60}),
    }
    check_pages(CAMERAS, cases)
