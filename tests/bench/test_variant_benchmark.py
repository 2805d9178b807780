"""Interleaved variants: timing, ranking and findings."""

from contextlib import closing, contextmanager

import pytest

from bench.checksums import CHECKSUMS
from bench.records import recorded
from headrace.bench import variant_benchmark
from headrace.bench.benchmark import Context
from headrace.measuring.interleaved import MedianRange
from headrace.profiling.findings.finding import Change
from headrace.testing.fake_clock import FakeClock


def ranking(record) -> variant_benchmark.Ranking:
    return variant_benchmark.Ranking.of(record, CHECKSUMS.rows(record), "MB")


def timed(variants, clock, **options):
    ready = variant_benchmark.VariantSet(
        variants=variants, record=variant_benchmark.VariantRecord, **options
    )
    return variant_benchmark.time_variants(ready, repeats=1, context=Context(clock=clock))


def test_entering_and_leaving_the_context_of_a_variant_is_not_timed():
    clock, seen = FakeClock(), []

    @contextmanager
    def settled(variant):
        clock.advance(10)
        seen.append(f"{variant} begins")
        yield
        clock.advance(10)
        seen.append(f"{variant} ends")

    def work(name, seconds):
        def run():
            seen.append(name)
            clock.advance(seconds)
            return 6.0

        return run

    turns = timed({"a": work("a", 2), "b": work("b", 3)}, clock, settled=settled)
    assert [(turn.way, turn.amount, turn.seconds) for turn in turns] == [("a", 6, 2), ("b", 6, 3)]
    one = ["a begins", "a", "a ends"]
    assert seen == [*one, *one, "b begins", "b", "b ends"]


def test_continuous_work_counts_after_its_first_amount_and_is_closed():
    clock, seen = FakeClock(), []

    def amounts():
        try:
            while True:
                clock.advance(1)
                yield 6
        finally:
            seen.append("ended")

    work = variant_benchmark.ContinuousWork(begin=lambda: closing(amounts()), seconds=2.5)
    [turn] = timed({"a": work}, clock)
    assert (turn.amount, turn.seconds) == (18, 3)
    assert seen == ["ended"] * 2, "after the warm-up and after the repetition"


def test_the_context_of_a_failed_variant_is_left():
    seen = []

    @contextmanager
    def settled(variant):
        try:
            yield
        finally:
            seen.append(variant)

    def fails():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        timed({"a": fails}, FakeClock(), settled=settled)
    assert seen == ["a"]


def test_a_row_has_the_median_rate_and_time_of_its_repetitions():
    [row] = CHECKSUMS.rows(recorded({"crc32": [1, 2, 4]}))
    assert row.rate == MedianRange(median=50, lowest=25, highest=100)
    assert row.ms == MedianRange(median=20, lowest=10, highest=40)


def test_findings_on_variants(check_pages):
    cases = {
        "won": recorded({"sha256": [2, 2, 2], "blake2b": [1, 1, 1]}),
        "alike": recorded({"sha256": [1.02], "blake2b": [1]}),
        "unsteady": recorded({"sha256": [1, 2], "crc32": [5, 5]}),
        "disturbed": recorded({"sha256": [1, 1], "crc32": [5, 5]}, others=0.5),
    }
    check_pages(CHECKSUMS, cases)
    won = [case for case, record in cases.items() if ranking(record).is_won]
    assert won == ["won"]


def test_a_clear_winner_is_advised_with_the_options_of_a_run():
    result = ranking(recorded({"plain": [2, 2], "quick": [1, 1]}))
    advice = result.advice({"quick": Change(words="--quick", options={"quick": True})})
    assert (advice.words, advice.gain, advice.options) == ("--quick", 2.0, {"quick": True})
    assert result.change("--quick", "without") == "--quick: 2.00 times the 50.0 MB/s without."
    assert result.headline("", won="It pays") == "It pays"
