"""The lines at the end of a loop: what is said to try next is what the whole gains most by."""

import pytest

from headrace.report.loop_text import render_verdict
from profiling.loops import Loop, simulate_loop

SLOW_START = Loop(fetch=40, step=4, workers=2, start=3000)


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
