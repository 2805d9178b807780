"""Variants that take turns: what is timed, how they rank, and the answer that follows."""

from contextlib import contextmanager

import pytest

from bench.checksums import CHECKSUMS
from bench.contests import recorded
from headrace.bench.benchmark import Context
from headrace.bench.variant_benchmark import (
    Done,
    Ranking,
    VariantRecord,
    VariantSet,
    time_variants,
)
from headrace.measuring.interleaved import Spread
from headrace.profiling.findings.finding import Change
from headrace.testing.fake_clock import FakeClock

AGAIN = "The same again with nothing else running, or with more --repeats."


def ranking(seconds, others=0.0) -> Ranking:
    record = recorded(seconds, others=others)
    return Ranking.of(record, CHECKSUMS.rows(record), "MB")


def timed(variants, clock, **options):
    ready = VariantSet(variants=variants, record=VariantRecord, **options)
    return time_variants(ready, repeats=1, context=Context(clock=clock))


def test_each_turn_is_taken_inside_what_settles_its_variant_and_that_is_not_timed():
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


def test_a_variant_that_was_under_way_says_itself_how_long_it_took():
    clock = FakeClock()

    def work():
        clock.advance(1)
        return Done(amount=6, seconds=1.5)

    [turn] = timed({"a": work}, clock)
    assert (turn.amount, turn.seconds) == (6, 1.5)


def test_what_is_settled_is_ended_where_a_variant_fails():
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


def test_a_row_is_the_median_of_its_turns_as_a_rate_and_as_a_time():
    [row] = CHECKSUMS.rows(recorded({"crc32": [1, 2, 4]}))
    assert row.rate == Spread(median=50, lowest=25, highest=100)
    assert row.ms == Spread(median=20, lowest=10, highest=40)


@pytest.mark.parametrize(
    ("seconds", "others", "headline", "change", "words", "gain", "rests_on", "said"),
    [
        (
            {"sha256": [2, 2, 2], "blake2b": [1, 1, 1]},
            0,
            "Fastest is blake2b: 100 MB/s",
            "blake2b: 2.00 times the 50.0 MB/s of sha256.",
            "blake2b",
            2.0,
            "100 MB/s against 50.0 MB/s of sha256",
            "",
        ),
        (
            {"sha256": [1.02], "blake2b": [1]},
            0,
            "Fastest is sha256 and blake2b: 100 MB/s",
            "No gain is known: nothing here is clearly faster than sha256.",
            "stay with sha256",
            1.0,
            "98.0 MB/s, the fastest 100 MB/s",
            "",
        ),
        (
            {"sha256": [1, 2], "crc32": [5, 5]},
            0,
            "Too unsteady to say which is the fastest; by the median sha256",
            AGAIN,
            AGAIN.rstrip("."),
            None,
            "turns that cannot be told apart",
            "Turns of one way differ by up to 67 %",
        ),
        (
            {"sha256": [1, 1], "crc32": [5, 5]},
            0.5,
            "Other programs ran meanwhile, so it is uncertain which is the fastest; by the median "
            "sha256",
            AGAIN,
            AGAIN.rstrip("."),
            None,
            "turns that cannot be told apart",
            "0.500 of 4 usable",
        ),
    ],
    ids=["won", "alike", "unsteady", "disturbed"],
)
def test_the_answer_follows_from_the_turns(
    seconds, others, headline, change, words, gain, rests_on, said
):
    [finding] = CHECKSUMS.page(recorded(seconds, others=others)).findings
    assert (finding.headline, finding.change) == (headline, change)
    advice = finding.advice
    assert (advice.words, advice.gain, advice.rests_on) == (words, gain, rests_on)
    assert said in " ".join(finding.evidence)
    assert ranking(seconds, others).is_won is (gain == 2)


def test_a_clear_winner_is_advised_with_the_options_that_make_a_run_do_the_same():
    found = ranking({"plain": [2, 2], "quick": [1, 1]})
    advice = found.advice({"quick": Change(words="--quick", options={"quick": True})})
    assert (advice.words, advice.gain, advice.options) == ("--quick", 2.0, {"quick": True})
    assert found.change("--quick", "without") == "--quick: 2.00 times the 50.0 MB/s without."
    assert found.headline("", won="It pays") == "It pays"
