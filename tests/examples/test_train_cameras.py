"""The training example on camera streams: what memory is worth, and going on after a kill."""

import re

import pytest

from examples.running import EXAMPLES, Launch, launched
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
"""Steps after which a checkpoint is written, in which both processes are killed, and that those
which nobody kills are known to have."""
LOST = 0.05
"""m²: less than what is left to one who sees but does not remember: the car is anywhere in a
metre, 1/12 m² about the middle."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """What became of all launches, by name."""
    folder = tmp_path_factory.mktemp("made")
    words = (SCRIPT, str(write_nuscenes(folder / "set", MADE)), "--links", str(folder / "links"))
    words += ("--size", "32", "48")
    launches = {
        f"memory {each}": Launch(
            command=(*words, *WAYS["stock"], "--memory", each, "--epochs", "3", "--group-num", "3")
        )
        for each in ("slot", "place", "none")
    }
    for way, asked in WAYS.items():
        told = (*words, *asked, "--print-steps", "--epochs", "2")
        kept = (*told, "--checkpoint", str(folder / f"{way}.pt"), "--save-every", str(SAVED))
        launches |= {
            f"{way} whole": Launch(command=told, ranks=2),
            f"{way} killed": Launch(command=kept, ranks=2, killed_at=KILLED),
            f"{way} resumed": Launch(command=kept, ranks=2),
        }
    launches["alone"] = Launch(command=launches["stock resumed"].command)
    return dict(zip(launches, launched([*launches.values()]), strict=True))


def epochs(found):
    """Return (loss in m², moments, strays) of each epoch."""
    told = re.findall(r"loss ([\d.]+), .* off: (\d+) moments, (\d+) without", found.said)
    return [(float(loss), int(moments), int(strays)) for loss, moments, strays in told]


def steps(found, after=0):
    """Return {(rank, step): what it showed, and the loss} behind a step."""
    told = re.findall(r"rank (\d) step (\d+) (.*)", found.said)
    return {(int(rank), int(step)): said for rank, step, said in told if int(step) > after}


def test_motion_is_learnt_with_the_memory_of_the_clip_and_not_without(ended):
    """A stock DataLoader with two workers: by slot, by place as if there were one, and not at all.

    What is seen does not tell what came before: more than `LOST` is off without memory, and with
    that of another clip; a quarter of that, at most, with the right one.
    """
    losses = {}
    for kept_by in ("slot", "place", "none"):
        found = ended[f"memory {kept_by}"]
        assert found.codes == [0], found.said
        losses[kept_by] = epochs(found)[-1][0]
        assert {moments for _, moments, _ in epochs(found)} == {MOMENTS}
    assert losses["slot"] < LOST / 4
    assert losses["place"] > LOST
    assert losses["none"] > LOST


def test_strays_are_counted_where_memory_is_kept_by_place(ended):
    assert {strays for _, _, strays in epochs(ended["memory slot"])} == {0}
    assert all(strays > MOMENTS / 2 for _, _, strays in epochs(ended["memory place"]))


@pytest.mark.parametrize("way", WAYS)
def test_each_moment_is_seen_once_in_an_epoch_with_the_memory_of_its_clip(ended, way):
    found = ended[f"{way} whole"]
    assert found.codes == [0, 0], found.said
    assert [each[1:] for each in epochs(found)] == [(MOMENTS, 0)] * 2


@pytest.mark.parametrize("way", WAYS)
def test_after_a_kill_two_processes_do_what_they_would_have_done(ended, way):
    """Each step, and its loss to the last digit, is that of a run which nobody stopped."""
    whole, killed, resumed = (ended[f"{way} {which}"] for which in ("whole", "killed", "resumed"))
    assert -9 in killed.codes, killed.said  # who is quicker may leave the other without a peer
    assert resumed.codes == [0, 0], resumed.said
    last = KILLED // SAVED * SAVED
    assert resumed.said.startswith(f"resuming after step {last}\n")
    every = steps(whole)
    assert len(every) >= 2 * STEPS
    assert steps(killed) == {each: said for each, said in every.items() if each[1] < KILLED}
    assert steps(resumed) == steps(whole, after=last)
    assert epochs(resumed)[-1][1:] == (MOMENTS, 0)


def test_another_number_of_processes_is_refused_in_one_line(ended):
    assert ended["alone"].codes == [1]
    assert ended["alone"].said == (
        "train_cameras.py: error: the checkpoint has processes 2, got 1; resume with the same "
        "clips, loader, --group-num, --workers and number of processes\n"
    )
