"""The late rank is named with its cause; the advice is for this rank only."""

import pytest

from headrace.profiling.findings.late_rank import find_late_rank, measure_ranks
from headrace.profiling.session import Session
from headrace.report.benchmark_page import render_benchmark_text
from headrace.report.ranks_page import (
    RECORD,
    REPORT,
    RanksRecord,
    ranks_of,
    ranks_page,
    write_ranks,
)
from profiling.loops import Loop, simulate_loop
from profiling.test_inside_step import part, with_inside


def rank(
    *,
    fetch: float = 3,
    forward: float = 10,
    backward: float = 15,
    waits: float = 0,
    optimizer: float = 5,
    own: float = 0,
) -> Session:
    """Return the session of a rank; `waits`: time that it waits for others in its backward."""
    step = forward + backward + waits + optimizer + own
    return with_inside(
        simulate_loop(Loop(fetch=fetch, collate=0.0, step=step, noise=0.0)),
        part("forward", forward),
        part("backward", backward + waits, cpu_ms=backward),
        part("optimizer", optimizer),
        part("rest", own),
    )


@pytest.mark.parametrize(
    ("late", "cause", "words", "change"),
    [
        (rank(fetch=23), "data", "data", "num_workers="),
        (rank(forward=30), "forward", "forward", "A cheaper forward and backward"),
        (rank(backward=35), "backward", "backward", "A cheaper forward and backward"),
        (rank(own=20), "rest", "own code", "A cheaper step"),
    ],
    ids=["data", "forward", "backward", "own code"],
)
def test_the_late_rank_has_the_longest_part_of_its_own(late, cause, words, change):
    ranks = measure_ranks({0: rank(waits=20), 1: late, 2: rank(waits=20)})
    finding = find_late_rank(ranks)
    assert finding.headline.startswith(f"Rank 1 is late because of its {words}: ")
    assert finding.cause == cause
    assert str(finding.change).startswith(change)
    assert "20 ms of a step" in finding.evidence[1]
    assert [round(rank.waits_ms) for rank in ranks] == [20, 0, 20]


def test_ranks_of_equal_time_and_a_slower_rank_without_waits_are_not_late() -> None:
    for ranks in ({0: rank(), 1: rank(forward=30)}, {0: rank(), 1: rank(forward=11)}, {0: rank()}):
        assert find_late_rank(measure_ranks(ranks)) is None


def test_on_gpus_the_wait_is_the_excess_of_the_backward_over_the_fastest_rank() -> None:
    def on_gpu(*, forward: float, backward: float) -> Session:
        return with_inside(
            simulate_loop(Loop(fetch=3, collate=0.0, step=forward + backward, noise=0.0)),
            part("forward", forward, device_ms=forward),
            part("backward", backward, cpu_ms=1, device_ms=backward),
        )

    ranks = measure_ranks({0: on_gpu(forward=10, backward=50), 1: on_gpu(forward=40, backward=20)})
    finding = find_late_rank(ranks)
    assert finding.headline.startswith("Rank 1 is late because of its forward: ")
    assert [round(rank.waits_ms) for rank in ranks] == [30, 0]


def test_the_page_shows_all_ranks_side_by_side(tmp_path) -> None:
    for number, session in enumerate([rank(waits=20), rank(forward=30)]):
        session.save(tmp_path / f"rank_{number}.json")
    (tmp_path / "0.size").write_text("3")
    record = ranks_of(tmp_path, 0.25)
    assert record.missing == 1
    assert record.ranks[1].others_cpu_share == 0.25
    text = render_benchmark_text(ranks_page(record))
    assert "Rank 1 is late because of its forward" in text
    assert "No session was recorded for 1 rank." in text
    (headers,) = [line.split() for line in text.splitlines() if line.lstrip().startswith("rank ")]
    assert " ".join(headers) == ("rank steps step forward backward optimizer data rest core others")
    write_ranks(record, tmp_path)
    assert RanksRecord.model_validate_json((tmp_path / RECORD).read_bytes()) == record
    assert "Rank 1 is late because of its forward" in (tmp_path / REPORT).read_text()


def test_even_ranks_have_a_finding_on_their_bottleneck() -> None:
    text = render_benchmark_text(ranks_page(RanksRecord(ranks={0: rank(), 1: rank()})))
    assert "No rank is late" in text
    assert "The step itself takes" in text
