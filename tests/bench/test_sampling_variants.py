"""Every way can be run, draws what it says, and knows what that costs in statistics."""

import numpy as np
import pytest

from bench.sampling_records import recorded, strategy
from headrace.bench.sampling_record import WAYS, draws, how, label
from headrace.bench.sampling_variants import Setting, describe_way, open_way, sampler_of
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError
from headrace.testing.synth import SynthClip, write_clip
from headrace.training.video_set import VideoSet

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

SAME = ("baseline", "dataset", "naive", "look-ahead", "quarter")


@pytest.fixture
def setting(tmp_path):
    """Return a function that gives 48 frames in GOPs of 12, batches of 4."""
    store = IndexStore(tmp_path / "index")
    clips = [write_clip(tmp_path / f"{k}", SynthClip(num_frames=24, gop=12)) for k in range(2)]
    videos = VideoSet.open(clips, store=store)

    def make(**options):
        options = {
            **{"videos": videos, "batch_size": 4, "size": (16, 16), "memory_budget": 2**18},
            **{"frames_per_burst": 4, "workers": 1, "rho": 0.9, "store": store, **options},
        }
        return Setting(**options)

    return make


@pytest.mark.parametrize("way", WAYS)
def test_a_way_delivers_whole_batches(setting, way):
    batches = open_way(way, setting()).batches()
    assert [next(batches), next(batches)] == [4, 4]
    batches.close()


def test_most_ways_draw_the_very_same_frames(setting):
    population = setting().videos.population
    orders = {way: sampler_of(way, setting()).order(population, 0)[:] for way in WAYS}
    for way in SAME:
        assert np.array_equal(orders[way], orders["baseline"]), way
    for way in ("permutation", "bursts"):
        assert sorted(orders[way].tolist()) == list(range(48)), way


@pytest.mark.parametrize("way", WAYS)
def test_only_bursts_cost_noise_and_none_costs_bias(setting, way):
    found = describe_way(way, setting())
    assert (found.bias, found.design_effect) == (0, 1)
    assert found.inflation == pytest.approx(1 + 3 * 0.9 if way == "bursts" else 1)
    assert not found.why_not


@pytest.mark.parametrize(
    ("way", "options", "said"),
    [
        ("quarter", {"memory_budget": 12 * 768}, "three batches"),
        ("bursts", {"frames_per_burst": 16}, "need at least 68 frames"),
    ],
)
def test_what_is_there_for_comparison_may_be_impossible(setting, way, options, said):
    assert said in describe_way(way, setting(**options)).why_not


@pytest.mark.parametrize("way", ["naive", "look-ahead", "permutation"])
def test_too_little_memory_for_the_others_is_an_error(setting, way):
    with pytest.raises(ConfigError, match="three batches"):
        describe_way(way, setting(memory_budget=1000))


def test_ways_that_draw_the_very_same_frames_say_the_same():
    record = recorded()
    said = {way: draws(strategy(way), record) for way in WAYS}
    assert len({said[way] for way in SAME}) == 1
    assert len(set(said.values())) == 3


def test_bursts_say_what_a_batch_is_worth_over_many_steps():
    record = recorded(batch_size=8, burst=4, rho=0.5)
    said = draws(strategy("bursts", inflation=2.5), record)
    assert "each frame once an epoch, 4 from one decoding" in said
    assert (
        "a batch of 8 is worth as little as 3 independent frames (D = 1 + 3 x 0.5 = 2.50)" in said
    )
    assert "lanes=8), lookahead=25)" in how("bursts", record)


@pytest.mark.parametrize(
    ("memory", "labels"),
    [
        (2**30, ("look-ahead 1,024 MiB", "look-ahead 256 MiB")),
        (2**20, ("look-ahead 1 MiB", "look-ahead 0.25 MiB")),
    ],
)
def test_a_quarter_of_the_memory_is_one(memory, labels):
    assert tuple(label(way, memory, 8) for way in SAME[3:]) == labels
