"""Strategies take turns on frames that are proven equal; what each draws and what it costs."""

import numpy as np
import pytest

from bench.sampling_records import recorded, strategy
from headrace.bench.benchmark import Context
from headrace.bench.frame_equality import check_equal
from headrace.bench.sampling import SamplingConfig, measure_sampling
from headrace.bench.sampling_record import WAYS, SamplingRecord, draws, how, label
from headrace.bench.sampling_variants import Setting, describe_way, open_way, sampler_of
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError, DecodeError, OpenError
from headrace.measuring.seek_baseline import SeekPerFrame
from headrace.testing.synth import SynthClip, write_clip
from headrace.training.video_set import VideoSet

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def store(tmp_path):
    return IndexStore(tmp_path / "index")


@pytest.fixture
def videos(tmp_path):
    return [write_clip(tmp_path / f"{k}", SynthClip(num_frames=24, gop=12)) for k in range(2)]


@pytest.fixture
def setting(videos, store):
    """Return a function that gives 48 frames in GOPs of 12, batches of 4."""
    opened = VideoSet.open(videos, store=store)

    def make(**options):
        options = {
            **{"videos": opened, "batch_size": 4, "size": (16, 16), "memory_budget": 2**18},
            **{"frames_per_burst": 4, "workers": 1, "rho": 0.9, "store": store, **options},
        }
        return Setting(**options)

    return make


@pytest.fixture
def measure(videos, store):
    """Return a function that measures two small videos, shortly."""

    def run(**options):
        seen = []
        options = {
            **{"videos": tuple(map(str, videos)), "batch_size": 4, "size": (16, 16), "burst": 4},
            **{"memory": "256KiB", "workers": 1, "seconds": 0.01, "repeats": 1, **options},
        }
        record = measure_sampling(
            SamplingConfig(**options),
            Context(
                command=("headrace", "bench"),
                on_progress=lambda *turn: seen.append(turn),
                store=store,
            ),
        )
        return record, seen

    return run


def test_strategies_take_turns(measure):
    record, seen = measure(strategies=("naive", "bursts"), repeats=2)
    assert [turn.strategy for turn in record.turns] == ["baseline", "naive", "bursts"] * 2
    assert seen == list(
        zip(["baseline", "naive", "bursts of 4"] * 2, range(6), [6] * 6, strict=True)
    )
    assert (record.videos, record.frames, record.gops) == (2, 48, 4)
    assert (record.batch_size, record.workers, record.compared) == (4, 1, 4)


def test_the_record_says_what_it_was_made_with(measure):
    record, _ = measure(strategies=())
    assert record.provenance.command == ("headrace", "bench")
    assert record.provenance.configuration == {
        "videos": 2,
        "batch_size": 4,
        "size": "16,16",
        "memory": "256KiB",
        "burst": 4,
        "rho": 0.95,
        "workers": 1,
        "strategies": "baseline",
        "seconds": 0.01,
        "repeats": 1,
    }
    assert (record.memory_budget, record.burst, record.rho) == (2**18, 4, 0.95)
    assert SamplingRecord.model_validate_json(record.model_dump_json()) == record


def test_what_is_not_possible_has_no_turn(measure):
    record, _ = measure(strategies=("bursts",), burst=16)
    assert [turn.strategy for turn in record.turns] == ["baseline"]
    assert "need at least 68 frames" in record.strategies[1].why_not


class Flipped(SeekPerFrame):
    """A baseline in which one bit of one frame is wrong."""

    def __getitem__(self, frame):
        pixels = super().__getitem__(frame).clone()
        if self.counters.opens == 3:
            pixels[2, 5, 7] ^= 1
        return pixels


@pytest.mark.parametrize(("batch_size", "count"), [(4, 4), (40, 16)])
def test_a_frame_that_differs_in_one_bit_is_an_error(videos, setting, batch_size, count):
    given = setting(batch_size=batch_size, rho=0.5)
    assert check_equal(given) == count
    with pytest.raises(DecodeError, match=r"frame \d+ of .*\.mp4 .* is not the same") as said:
        check_equal(given, Flipped(given.videos, given.size))
    assert said.value.source in map(str, videos)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"memory": "2KiB"}, "does not hold three batches"),
        ({"batch_size": 49}, "a batch of 49 is larger than the set: the videos have 48 frames"),
    ],
)
def test_what_cannot_be_measured_is_refused(measure, options, said):
    with pytest.raises(ConfigError, match=said):
        measure(**options)


def test_a_video_that_cannot_be_read_is_named(measure):
    with pytest.raises(OpenError, match=r"gone\.mp4"):
        measure(videos=("gone.mp4",))


SAME = ("baseline", "dataset", "naive", "look-ahead", "quarter")


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
