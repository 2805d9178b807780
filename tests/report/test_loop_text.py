"""The lines at the end of a loop: what is said to try next is what the whole gains most by."""

import pytest

from headrace.report.loop_text import render_verdict
from profiling.loops import Loop, simulate_loop

SLOW_START = Loop(fetch=40, step=4, workers=2, start=3000)


def test_the_first_line_is_the_verdict_and_a_busy_machine_stands_above_it() -> None:
    session = simulate_loop(Loop(fetch=12, step=72))
    quiet = render_verdict(session).splitlines()
    assert quiet[0].startswith("headrace: The step itself takes 85 % of the time: 72.7 of the 85.")
    busy = " ".join(render_verdict(session.model_copy(update={"others_cpu_share": 0.95})).split())
    assert busy.startswith("headrace: ! Other programs used 95 % of the processor time meanwhile:")
    assert (
        "before you act on them. headrace: The step itself takes 85 % of the time, as far as a "
        "busy machine lets one tell: 72.7 of" in busy
    )
    assert max(map(len, quiet)) <= 80


def test_a_wait_that_is_not_the_largest_part_is_answered_after_it() -> None:
    said = last_words(Loop(fetch=9, step=4, log=40))
    assert said.startswith("A cheaper step (model, optimizer, logging, evaluation); what it")
    assert "Then: num_workers=1: about 1.2 times as fast" in said


def last_words(plan: Loop) -> str:
    return " ".join(render_verdict(simulate_loop(plan)).split()).partition("Try next: ")[2]


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (Loop(fetch=40, step=4, workers=2), "num_workers=8: about 3."),
        (SLOW_START.with_(steps=60, epochs=3), "persistent_workers=True: about"),
        (SLOW_START.with_(steps=60), "Judge by more steps: start-up is paid once an epoch."),
        (SLOW_START.with_(start=300, epochs=3, steps=600), "num_workers="),
    ],
    ids=["flows", "starts again", "starts once", "starts quickly"],
)
def test_what_costs_most_of_the_whole_is_what_to_try(plan, said) -> None:
    assert last_words(plan).startswith(said)
