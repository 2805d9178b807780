"""Ways that take turns: what is timed, how they rank, and the advice that follows."""

from contextlib import contextmanager

import pytest

from bench.contests import recorded
from headrace.bench.benchmark import Context
from headrace.bench.contest import (
    Done,
    Ranking,
    contest_answer,
    contest_rows,
    hold_contest,
)
from headrace.profiling.findings.finding import Change
from headrace.testing.fake_clock import FakeClock


def ranking(seconds_by_way, others=0.0) -> Ranking:
    record = recorded(seconds_by_way, others=others)
    return Ranking.of(record, contest_rows(record), "frames")


def test_each_turn_is_taken_inside_what_settles_its_way_and_that_is_not_timed():
    clock, seen = FakeClock(), []

    @contextmanager
    def settled(way):
        clock.advance(10)
        seen.append(f"{way} begins")
        yield
        clock.advance(10)
        seen.append(f"{way} ends")

    def way(name, seconds):
        def work():
            seen.append(name)
            clock.advance(seconds)
            return 6.0

        return work

    turns = hold_contest(
        {"a": way("a", 2), "b": way("b", 3)},
        repeats=1,
        context=Context(clock=clock),
        settled=settled,
    )
    assert [(turn.way, turn.amount, turn.seconds) for turn in turns] == [("a", 6, 2), ("b", 6, 3)]
    one = ["a begins", "a", "a ends"]
    assert seen == [*one, *one, "b begins", "b", "b ends"]


def test_a_way_that_was_under_way_says_itself_how_long_it_took():
    clock = FakeClock()

    def work():
        clock.advance(1)
        return Done(amount=6, seconds=1.5)

    [turn] = hold_contest({"a": work}, repeats=1, context=Context(clock=clock))
    assert (turn.amount, turn.seconds) == (6, 1.5)


def test_what_is_settled_is_ended_where_a_way_fails():
    seen = []

    @contextmanager
    def settled(way):
        try:
            yield
        finally:
            seen.append(way)

    def fails():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        hold_contest({"a": fails}, repeats=1, context=Context(), settled=settled)
    assert seen == ["a"]


def test_a_clear_winner_is_advised_with_its_gain_and_its_options():
    found = ranking({"plain": [2, 2], "quick": [1, 1]})
    assert found.is_won
    change = Change(words="--quick", options={"quick": True})
    advice = found.advice({"quick": change})
    assert (advice.words, advice.gain, advice.options) == ("--quick", 2.0, {"quick": True})
    assert advice.rests_on == "100 frames/s against 50.0 frames/s of plain"
    assert found.advice({}).words == "quick"


def test_where_none_is_clearly_faster_nothing_is_to_be_changed():
    found = ranking({"plain": [1.02, 1.02], "quick": [1, 1]})
    assert not found.is_won
    assert (found.advice({}).words, found.advice({}).gain) == ("stay with plain", 1.0)
    assert found.change() == "No gain is known: nothing here is clearly faster than plain."


@pytest.mark.parametrize(("seconds", "others"), [([1, 2], 0.0), ([1, 1], 3.0)])
def test_no_gain_is_promised_by_turns_that_cannot_be_told_apart(seconds, others):
    found = ranking({"plain": [5, 5], "quick": seconds}, others)
    assert not found.is_won
    assert found.advice({"quick": Change(words="--quick")}).gain is None
    assert found.change().startswith("The same again with nothing else running")


def test_an_answer_carries_what_an_experiment_adds():
    record = recorded({"plain": [2], "quick": [1]})
    changes = {"quick": Change(words="--quick")}
    [finding] = contest_answer(
        record, contest_rows(record), "frames", changes=changes, evidence=["It is so."]
    )
    assert finding.evidence == ("It is so.",)
    assert finding.advice is not None
    assert (finding.advice.words, finding.advice.gain) == ("--quick", 2.0)
