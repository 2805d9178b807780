"""examples/train_cameras.py: the effect of memory, and resuming after a kill."""

import re

import pytest

from examples.running import EXAMPLES, Launch, launch_all
from headrace.testing.nuscenes import CAMERAS, NuScenesSet, write_nuscenes

pytestmark = pytest.mark.slow

SCRIPT = str(EXAMPLES / "train_cameras.py")
MADE = NuScenesSet(
    durations_seconds=(1.5, 1.0, 1.25, 0.75, 1.5, 1.0, 1.25, 1.0),
    cameras=CAMERAS[:3],
    size=(32, 48),
    drive="rocking",
)
MOMENTS = sum(int(each * 12) for each in MADE.durations_seconds)
WAYS = {"loader": (), "stock": ("--stock-loader",)}
SAVED, KILLED, STEPS = 15, 40, 50
"""Steps between checkpoints, step of the kill of both processes, and minimum steps per epoch."""
LOST = 0.05
"""m²: below the loss of a model without memory, for which the position is uniform within a meter
(variance 1/12 m²)."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Results of all launches by name."""
    folder = tmp_path_factory.mktemp("made")
    words = (SCRIPT, str(write_nuscenes(folder / "set", MADE)), "--links", str(folder / "links"))
    words += ("--size", "32", "48")
    launches = {
        f"memory {memory}": Launch(
            command=(
                *words,
                *WAYS["stock"],
                "--memory",
                memory,
                "--epochs",
                "3",
                "--group-num",
                "3",
            )
        )
        for memory in ("slot", "place", "none")
    }
    for way, options in WAYS.items():
        command = (*words, *options, "--print-steps", "--epochs", "2")
        saving = (*command, "--checkpoint", str(folder / f"{way}.pt"), "--save-every", str(SAVED))
        launches |= {
            f"{way} whole": Launch(command=command, ranks=2),
            f"{way} killed": Launch(command=saving, ranks=2, killed_at=KILLED),
            f"{way} resumed": Launch(command=saving, ranks=2),
        }
    launches["alone"] = Launch(command=launches["stock resumed"].command)
    return dict(zip(launches, launch_all([*launches.values()]), strict=True))


def epochs(result):
    """Return (loss in m², moments, moments with a wrong memory) of each epoch."""
    rows = re.findall(r"loss ([\d.]+), .* off: (\d+) moments, (\d+) without", result.output)
    return [(float(loss), int(moments), int(wrong)) for loss, moments, wrong in rows]


def steps(result, after=0):
    """Return {(rank, step): moments and loss} of the steps after a step."""
    rows = re.findall(r"rank (\d) step (\d+) (.*)", result.output)
    return {(int(rank), int(step)): text for rank, step, text in rows if int(step) > after}


def test_motion_is_learned_only_with_the_memory_of_the_clip(ended):
    """A stock DataLoader with two workers: memory by slot, by position, and none.

    One moment does not show the motion: the loss is above `LOST` without memory and with that of
    another clip, and below a quarter of it with the right memory.
    """
    losses = {}
    for memory in ("slot", "place", "none"):
        result = ended[f"memory {memory}"]
        assert result.codes == [0], result.output
        losses[memory] = epochs(result)[-1][0]
        assert {moments for _, moments, _ in epochs(result)} == {MOMENTS}
    assert losses["slot"] < LOST / 4
    assert losses["place"] > LOST
    assert losses["none"] > LOST


def test_moments_with_a_wrong_memory_are_counted_if_memory_is_by_position(ended):
    assert {wrong for _, _, wrong in epochs(ended["memory slot"])} == {0}
    assert all(wrong > MOMENTS / 2 for _, _, wrong in epochs(ended["memory place"]))


@pytest.mark.parametrize("way", WAYS)
def test_each_moment_is_seen_once_in_an_epoch_with_the_memory_of_its_clip(ended, way):
    result = ended[f"{way} whole"]
    assert result.codes == [0, 0], result.output
    assert [epoch[1:] for epoch in epochs(result)] == [(MOMENTS, 0)] * 2


@pytest.mark.parametrize("way", WAYS)
def test_a_resumed_run_equals_an_uninterrupted_one(ended, way):
    """Moments and losses of each step are equal to the last digit."""
    whole, killed, resumed = (ended[f"{way} {which}"] for which in ("whole", "killed", "resumed"))
    assert -9 in killed.codes, killed.output  # the other process may end for lack of a peer
    assert resumed.codes == [0, 0], resumed.output
    last = KILLED // SAVED * SAVED
    assert resumed.output.startswith(f"resuming after step {last}\n")
    all_steps = steps(whole)
    assert len(all_steps) >= 2 * STEPS
    assert steps(killed) == {key: text for key, text in all_steps.items() if key[1] < KILLED}
    assert steps(resumed) == steps(whole, after=last)
    assert epochs(resumed)[-1][1:] == (MOMENTS, 0)


def test_another_number_of_processes_is_refused_in_one_line(ended):
    assert ended["alone"].codes == [1]
    assert ended["alone"].output == (
        "train_cameras.py: error: the checkpoint has processes 2, got 1; resume with the same "
        "clips, loader, --group-num, --workers and number of processes\n"
    )
