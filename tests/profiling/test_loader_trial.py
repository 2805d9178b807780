"""A change is tried if arguments of a DataLoader make it; its gain is that of the loop."""

import re

import pytest

from headrace.profiling.findings.loader_trial import choose_trial, describe_trial
from headrace.profiling.findings.loop_simulation import loop_seconds
from profiling.loops import (
    FIELDS,
    Loop,
    configured,
    loop_ms,
    profile_loop,
    simulate_loop,
    simulate_planned,
)
from report.recorded import changed

WAITING = Loop(fetch=40, step=20)
STEP = Loop(fetch=4, step=72)
TINY = Loop(fetch=0.1, step=0.1, workers=2, handover=2, batch_bytes=32)
STARTING = Loop(fetch=10, step=10, workers=2, epochs=20, start=800)


@pytest.mark.parametrize(
    ("plan", "option"),
    [
        (WAITING, "num_workers"),
        (Loop(fetch=100, step=10, workers=2), "num_workers"),
        (Loop(fetch=30, step=5, workers=2, noise=1.8, cores=2), "prefetch_factor"),
        (TINY, "num_workers"),
        (STARTING, "persistent_workers"),
    ],
    ids=["loading", "more workers", "uneven", "queue transfer", "start-up"],
)
def test_a_change_by_arguments_is_tried_and_its_gain_compared_with_the_prediction(plan, option):
    trial, refused = choose_trial([profile_loop(plan)])
    assert set(trial.change.options) == {option}
    assert refused == ()
    after = plan.with_(**{FIELDS[option]: trial.change.options[option]})
    text = describe_trial(trial, [profile_loop(STEP, "train.py:30"), profile_loop(after)])
    start, gain, end = re.split(r": ([0-9.]+) times as fast", text)
    assert start == f"{option}={trial.change.options[option]} at train.py:18"
    assert float(gain) == pytest.approx(loop_ms(plan) / loop_ms(after), rel=0.1)
    assert end.endswith(f"; {trial.change.prediction}.")
    assert ("starts of epochs included" in end) == (option == "persistent_workers")


NO_LOOP = "the second run did not have this loop with this change"
NO_ARGUMENT = "no argument of a DataLoader makes this change"
ON_DISK = 'spill="DIR", a folder on a local disk with 12,000 MB free: each frame is decoded once'
ITERABLE = "an IterableDataset may return other batches with another number of workers"
NOT_TRIED = {
    "A cheaper step (model, optimizer, logging, evaluation)": (profile_loop(STEP), NO_ARGUMENT),
    "Half of the work in __getitem__": (
        profile_loop(Loop(fetch=60, step=9, workers=2, cores=2)),
        NO_ARGUMENT,
    ),
    f"{ON_DISK}, then read": (configured(simulate_planned(), {"loop": "train.py:18"}), NO_ARGUMENT),
    "num_workers=0": (
        profile_loop(TINY.with_(lives_on=True, epochs=2)),
        "the order of later epochs would differ without its persistent workers",
    ),
    "num_workers=2": (profile_loop(WAITING, is_iterable=True), ITERABLE),
}
"""Change → loop that it is advised for, and the reason why it is not tried."""


def test_a_change_that_is_not_tried_has_a_reason():
    too_short = [profile_loop(STEP.with_(steps=5))]
    cases = {
        "Nothing to try: no loop was profiled.": [],
        "Nothing to try at train.py:18: no change is advised.": too_short,
        **{
            f"Not tried: {change} at train.py:18, because {why}.": [loop]
            for change, (loop, why) in NOT_TRIED.items()
        },
    }
    for sentence, loops in cases.items():
        assert choose_trial(loops) == (None, (sentence,))


def test_the_longest_loop_with_a_possible_change_is_tried():
    loops = [profile_loop(STEP), *(profile_loop(WAITING, f"train.py:{n}") for n in (30, 40))]
    trial, refused = choose_trial(loops)
    assert trial.loop is loops[1]
    assert len(refused) == 1


def test_a_change_that_comes_second_is_tried_after_the_first_was_refused():
    trial, refused = choose_trial([profile_loop(Loop(fetch=10, step=20))])
    assert [sentence.partition(" (")[0] for sentence in refused] == ["Not tried: A cheaper step"]
    assert trial.change.options == {"num_workers": 1}


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ((0, 0), r"fast \("),
        ((12, 12), r"fast, without waits for a core \("),
        ((0, 12), r"fast, as far as can be seen on a busy machine \("),
    ],
    ids=["quiet", "busy", "one busy"],
)
def test_a_gain_on_a_busy_machine_is_qualified(others, words):
    before, after = (
        WAITING.with_(workers=n, others=o) for n, o in zip((0, 2), others, strict=True)
    )
    trial, _ = choose_trial([profile_loop(before)])
    workers = trial.change.options["num_workers"]
    assert re.search(words, describe_trial(trial, [profile_loop(after.with_(workers=workers))]))


def test_a_gain_far_below_the_prediction_is_explained() -> None:
    trial, _ = choose_trial([profile_loop(WAITING)])
    slower = WAITING.with_(workers=2, fetch=90)
    text = describe_trial(trial, [profile_loop(slower)])
    assert re.search(
        r"predicted\. Less than predicted: a batch takes \S+ ms, 4\S+ ms before\.$", text
    )
    busy = describe_trial(trial, [changed(profile_loop(slower), others_cpu_share=0.3)])
    assert busy.endswith("other programs used 30 % of the CPU time in the second run.")
    assert "Less" not in describe_trial(trial, [profile_loop(WAITING.with_(workers=2))])


def test_without_two_loops_to_compare_there_is_no_gain():
    trial, _ = choose_trial([profile_loop(WAITING)])
    assert trial.change.options == {"num_workers": 2}
    after = WAITING.with_(workers=2)
    for words, *second_runs in (
        (NO_LOOP, [], [profile_loop(WAITING)], [profile_loop(after, "train.py:19")]),
        ("the loops are too short to compare", [profile_loop(after.with_(steps=6))]),
    ):
        for loops in second_runs:
            assert describe_trial(trial, loops).startswith(f"num_workers=2 at train.py:18: {words}")


def test_the_time_of_a_loop_includes_the_starts_of_its_epochs() -> None:
    loop = Loop(fetch=10, step=10, workers=2, epochs=3, steps=60, start=300)
    assert 1e3 * loop_seconds(simulate_loop(loop)) == pytest.approx(loop_ms(loop), rel=0.02)
