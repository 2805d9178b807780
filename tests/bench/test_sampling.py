"""Sampling benchmark: equal frames, interleaved strategies, their costs and limits."""

import numpy as np
import pytest

from bench.records import local_provenance, timing
from headrace.bench.benchmark import Context
from headrace.bench.sampling import (
    VARIANTS,
    SamplingConfig,
    SamplingRecord,
    SamplingVariants,
    StrategyRecord,
)
from headrace.bench.sampling_report import SAMPLING
from headrace.errors import ConfigError, DecodeError
from headrace.measuring.decode_counts import DeliveryRepetition
from headrace.measuring.loader_adapters import SeekPerFrame

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

SMALL = {"batch_size": 4, "size": (16, 16), "memory_budget": "256KiB", "burst": 4, "workers": 1}


@pytest.fixture
def opened(videos, store):
    """Return a function that opens 48 frames in GOPs of 12, in batches of 4."""

    def open_variants(**options):
        config = SamplingConfig(videos=videos, **{**SMALL, "rho": 0.9, **options})
        return SamplingVariants.open(config, store)

    return open_variants


def test_strategies_are_interleaved_and_the_record_has_the_options(measure, videos):
    seen = []
    context = Context(command=("headrace", "bench"), on_progress=lambda *turn: seen.append(turn))
    options = {**SMALL, "videos": videos, "strategies": ("naive", "bursts"), "repeats": 2}
    record = measure(SAMPLING, context, **options)
    assert [turn.strategy for turn in record.turns] == ["baseline", "naive", "bursts"] * 2
    assert seen == list(
        zip(["baseline", "naive", "bursts of 4"] * 2, range(6), [6] * 6, strict=True)
    )
    assert (record.videos, record.frames, record.gops) == (2, 48, 4)
    assert (record.batch_size, record.workers, record.compared) == (4, 1, 4)
    assert (record.memory_budget, record.burst, record.rho) == (2**18, 4, 0.95)
    assert record.provenance.command == ("headrace", "bench")
    assert record.provenance.configuration == {
        **{**SMALL, "videos": 2, "size": "16,16", "strategies": "baseline,naive,bursts"},
        **{"seconds": 0.01, "rho": 0.95, "repeats": 2},
    }


def test_an_impossible_strategy_is_not_timed(measure, videos):
    record = measure(SAMPLING, videos=videos, **SMALL | {"strategies": ("bursts",), "burst": 16})
    assert [turn.strategy for turn in record.turns] == ["baseline"]
    assert "need at least 68 frames" in record.strategies[1].why_not


class Flipped(SeekPerFrame):
    """Baseline with one wrong bit in one frame."""

    def __getitem__(self, frame):
        pixels = super().__getitem__(frame).clone()
        if self.counters.opens == 3:
            pixels[2, 5, 7] ^= 1
        return pixels


@pytest.mark.parametrize(("batch_size", "count"), [(4, 4), (40, 16)])
def test_a_frame_that_differs_in_one_bit_is_an_error(videos, opened, batch_size, count):
    variants = opened(batch_size=batch_size)
    assert variants.check_equal() == count
    with pytest.raises(DecodeError, match=r"frame \d+ of .*\.mp4 .* differs") as caught:
        variants.check_equal(Flipped(variants.videos, variants.config.size))
    assert caught.value.source in videos


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_strategy_delivers_full_batches_and_only_bursts_add_noise(opened, variant):
    variants = opened()
    batches = variants.delivery(variant).batches()
    assert [next(batches), next(batches)] == [4, 4]
    batches.close()
    strategy = variants.describe(variant)
    assert (strategy.bias, strategy.design_effect, strategy.why_not) == (0, 1, "")
    assert strategy.inflation == pytest.approx(1 + 3 * 0.9 if variant == "bursts" else 1)


def test_most_strategies_draw_the_same_frames(opened):
    variants = opened()
    orders = {
        variant: variants.sampler(variant).order(variants.videos.population, 0)[:]
        for variant in VARIANTS
    }
    for variant in ("dataset", "naive", "look-ahead", "quarter"):
        assert np.array_equal(orders[variant], orders["baseline"]), variant
    for variant in ("permutation", "bursts"):
        assert sorted(orders[variant].tolist()) == list(range(48)), variant


def test_only_strategies_for_comparison_may_be_impossible(opened):
    assert "three batches" in opened(memory_budget=str(12 * 768)).describe("quarter").why_not
    assert "need at least 68 frames" in opened(burst=16).describe("bursts").why_not
    for variant in ("naive", "look-ahead", "permutation"):
        with pytest.raises(ConfigError, match="does not hold three batches"):
            opened(memory_budget="1000").describe(variant)
    with pytest.raises(ConfigError, match="a batch of 49 is larger than the set: the videos have"):
        opened(batch_size=49)


def strategy(name, **options):
    """Return a strategy without statistical cost."""
    return StrategyRecord(**{"name": name, "bias": 0, "design_effect": 1, "inflation": 1} | options)


BASELINE, AHEAD, NAIVE, QUARTER = map(strategy, ("baseline", "look-ahead", "naive", "quarter"))
BURSTS = strategy("bursts", inflation=7.3)
IMPOSSIBLE = strategy("quarter", why_not="three batches do not fit")


def turns(name, frames, *, cores=2.0, others=0.0, decoded=1.0, **options):
    """Return a repetition of 10 s for each number of frames."""
    times = {
        **timing(10, cores=cores, others=others),
        **{"opens": 0, "bytes_read": 0, "held_bytes": 50_000_000, "is_filled": True},
        **{"warm_up_frames": 128, "warm_up_seconds": 1, **options},
    }
    return [
        DeliveryRepetition(strategy=name, frames=n, decoded=int(decoded * n), seeks=n // 4, **times)
        for n in frames
    ]


def recorded(*timed, usable=2, strategies=(BASELINE, AHEAD, BURSTS), **options):
    """Return a record of the repetitions of all strategies."""
    facts = {"videos": 40, "frames": 12_000, "gops": 400, "compared": 16, "workers": 2}
    facts |= {"batch_size": 128, "memory_budget": 2**30, "burst": 8, "rho": 0.9}
    return SamplingRecord(
        provenance=local_provenance(cores=usable, batch_size=128),
        strategies=strategies,
        turns=tuple(turn for repetitions in timed for turn in repetitions),
        **facts | options,
    )


USUAL = (
    turns("baseline", [500, 510, 490], decoded=15.5, opens=500),
    turns("look-ahead", [5000, 4900, 5100], decoded=0.7, bytes_read=15_000_000),
    turns("bursts", [2500, 2500, 2500], decoded=2.5, is_filled=False),
)
BASE = turns("baseline", [500])


def beside_baseline(*frames, base=BASE, usable=2, **options):
    return recorded(base, turns("look-ahead", frames, **options), usable=usable)


def memory(naive, quarter, full, **options):
    """Return a record of three memory sizes, by frames in 10 s; bursts draw other frames."""
    return recorded(
        BASE,
        turns("naive", naive, **options),
        turns("quarter", quarter),
        turns("look-ahead", full, decoded=0.8),
        turns("bursts", [9000]),
        strategies=(BASELINE, NAIVE, AHEAD, QUARTER, BURSTS),
    )


def test_findings_on_strategies(check_pages):
    ahead, unsteady = turns("look-ahead", [5000]), turns("bursts", [1000, 2000])
    busy_base = turns("baseline", [500], others=0.5)
    every = tuple(
        strategy(variant, inflation=2.5 if variant == "bursts" else 1) for variant in VARIANTS
    )
    small = {"memory_budget": 2**20, "batch_size": 8, "burst": 4, "rho": 0.5}
    cases = {
        "four strategies": recorded(*USUAL, strategies=(BASELINE, AHEAD, IMPOSSIBLE, BURSTS)),
        "bound by decoding": beside_baseline(5000),
        "bound by decoding in vain": beside_baseline(5000, cores=1.81, decoded=3),
        "bound by two workers": beside_baseline(5000, cores=1.95, usable=8),
        "other programs ran": beside_baseline(5000, cores=1.0, others=0.9),
        "other programs beside the baseline": beside_baseline(5000, base=busy_base),
        "processors had time to spare": beside_baseline(5000, cores=1.0, others=0.1),
        "a turn too short for the clock of processors": beside_baseline(5000, cores=0.0),
        "too short, and other programs ran": beside_baseline(5000, cores=0.0, others=0.9),
        "turns differ": beside_baseline(5000, 3000),
        "turns of one in between differ": recorded(BASE, ahead, unsteady),
        "as fast within five percent": recorded(BASE, ahead, turns("bursts", [4800])),
        "slower than the baseline": beside_baseline(300),
        "the baseline alone": recorded(BASE),
        "a quarter of the memory is enough": memory([500], [4800], [5000]),
        "no memory is enough": memory([4800], [4700], [5000]),
        "all the memory is needed": memory([500], [4700], [5000]),
        "memory while other programs ran": memory([500], [4800], [5000], others=0.5),
        "memory by turns that differ": memory([500, 1000], [4800], [5000]),
        "one size of memory": recorded(
            BASE,
            turns("naive", [500]),
            turns("look-ahead", [5000]),
            strategies=(BASELINE, NAIVE, AHEAD, IMPOSSIBLE),
        ),
        "a window that was still filling": memory([500], [4800], [5000], is_filled=False),
        "every strategy, in little memory": recorded(BASE, strategies=every, **small),
    }
    check_pages(SAMPLING, cases)


def test_the_explanation_mentions_the_star_only_if_there_is_one():
    filling = SAMPLING.page(recorded(*USUAL)).table.reading
    assert "at most 6 times the measured time (* is still warming up)" in filling
    assert "(*" not in SAMPLING.page(recorded(*USUAL[:2])).table.reading
