"""Bias and inflation by formula are those of simulated sampling, and are measured as put in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import Bursts, ConfigError, Population, ShuffledFrames, UniformFrames
from headrace.sampling import bias
from headrace.sampling.bias import burst_correlation, measured_mate_lags
from headrace.sampling.decode_cost import assess, burst_cost, lookahead_cost
from sampling.kit import binomial_bounds, uneven


def z_score(samples, mean: float) -> float:
    return (samples.mean() - mean) / (samples.std(ddof=1) / np.sqrt(len(samples)))


def test_a_uniform_video_then_frame_is_biased_by_how_length_and_content_vary_together():
    population = uneven()
    lengths = population.frames_per_video
    gradients = np.random.default_rng(1).normal(size=population.num_frames)
    gradients += np.repeat(lengths, lengths) / 20
    means = np.array([part.mean() for part in np.split(gradients, population.video_start[1:-1])])
    expected = -np.cov(lengths, means, bias=True)[0, 1] / lengths.mean()
    (found,) = bias.bias(1 / lengths, lengths, means[:, None])
    assert found == pytest.approx(expected)
    order = UniformFrames(over="videos")
    drawn = np.concatenate([order.order(population, epoch)[:] for epoch in range(100)])
    assert abs(z_score(gradients[drawn] - gradients.mean(), expected)) < 5
    weights = bias.unbiased_weights(1 / lengths, lengths)[population.video_of(drawn)]
    assert abs(z_score(weights * gradients[drawn], gradients.mean())) < 5


def test_keyframes_only_are_biased_by_phase_and_length_and_no_weights_help():
    gops = uneven().gop_lengths
    rng = np.random.default_rng(2)
    key, other = rng.normal(size=len(gops)) + gops / 10, rng.normal(size=len(gops))
    mean = (key + other * (gops - 1)).sum() / gops.sum()
    phase = (gops / gops.sum()) @ key - mean
    length = -np.cov(gops, key, bias=True)[0, 1] / gops.mean()
    seen = np.concatenate([np.ones(len(gops)), np.zeros(len(gops))])
    frames = np.concatenate([np.ones_like(gops), gops - 1])
    (found,) = bias.bias(seen, frames, np.concatenate([key, other])[:, None])
    assert found == pytest.approx(phase + length)
    with pytest.raises(
        ConfigError, match="589 of 643 frames are never sampled; weights cannot remove that bias"
    ):
        bias.unbiased_weights(seen, frames)


cells = st.lists(
    st.tuples(st.floats(0.01, 10), st.integers(1, 50), st.floats(-5, 5)), min_size=2, max_size=8
)


@given(cells=cells)
def test_no_gradients_are_more_biased_than_the_bound_and_some_reach_it(cells):
    frequency, frames, values = (np.array(column) for column in zip(*cells, strict=True))

    bound = bias.bias_bound(frequency, frames)

    def bias_and_sigma(means) -> tuple[float, float]:
        centred = means - frames @ means / frames.sum()
        sigma = float(np.sqrt(frames @ centred**2 / frames.sum()))
        return abs(float(bias.bias(frequency, frames, means[:, None])[0])), sigma

    size, sigma = bias_and_sigma(values)
    assert size <= bound * sigma + 1e-9
    size, sigma = bias_and_sigma(3 - 2 * frequency)
    assert size == pytest.approx(bound * sigma, abs=1e-9)
    # Uniform sampling has none.
    assert bias.bias_bound(np.full(len(frames), 0.2), frames) == pytest.approx(0, abs=1e-7)


@given(size=st.integers(1, 40), lanes=st.integers(1, 300), batch=st.integers(1, 300))
def test_every_mate_is_delivered_somewhere(size, lanes, batch):
    lags = bias.mate_lags(size, lanes, batch)
    assert lags.sum() == pytest.approx(size - 1)
    assert lags.min() >= 0
    assert lanes < batch or lags[0] == 0


RHO, SIZE, RUNS = 0.5, 8, 200


def dealt_bursts(lanes: int, rounds: int, rng) -> np.ndarray:
    """Gradients of bursts drawn with replacement, dealt from lanes: float64 [runs, slots]."""
    bursts = rng.normal(size=(RUNS, lanes, rounds // SIZE + 2))
    place = np.arange(rounds) + rng.integers(SIZE, size=(RUNS, lanes, 1))
    shared = np.take_along_axis(bursts, place // SIZE, axis=2)
    own = rng.normal(size=shared.shape)
    return (np.sqrt(RHO) * shared + np.sqrt(1 - RHO) * own).swapaxes(1, 2).reshape(RUNS, -1)


def sgd(errors, contraction: float, skip: int) -> np.ndarray:
    """Mean square of the deviation of SGD on a parabola, float64 [runs]; errors [runs, batches]."""
    deviation, squares = np.zeros((2, len(errors)))
    for step, error in enumerate(errors.T):
        deviation = (1 - contraction) * deviation - error
        squares += deviation**2 * (step >= skip)
    return squares / (errors.shape[1] - skip)


@pytest.mark.parametrize(("lanes", "batch"), [(32, 32), (40, 32), (12, 32)])
def test_bursts_inflate_the_noise_of_sgd_and_their_batches_correlate_as_predicted(lanes, batch):
    slots = dealt_bursts(lanes, 400 * batch // lanes, np.random.default_rng(3))
    batches = slots[:, : slots.shape[1] // batch * batch].reshape(RUNS, -1, batch).mean(2)
    lags = bias.mate_lags(SIZE, lanes, batch)
    effect = bias.design_effect(RHO, lags)
    assert abs(z_score((batches**2).mean(1) * batch, effect)) < 5
    contraction = 0.05
    by_chance = 1 / batch / (1 - (1 - contraction) ** 2)
    inflation = sgd(batches, contraction, skip=150) / by_chance
    assert abs(z_score(inflation, bias.sgd_inflation(RHO, lags, contraction))) < 5
    expected = bias.autocorrelation(RHO, lags, 4)
    for lag in (1, 2, 4):
        products = (batches[:, lag:] * batches[:, :-lag]).mean(1) * batch / effect
        assert abs(z_score(products, expected[lag - 1])) < 5, lag


def test_the_slower_sgd_moves_the_less_it_averages_bursts_out():
    lags = bias.mate_lags(SIZE, 12, 32)
    felt = [bias.sgd_inflation(RHO, lags, contraction) for contraction in (1, 0.3, 0.03, 0)]
    assert felt[0] == bias.design_effect(RHO, lags) > 1
    assert felt == sorted(felt)
    assert felt[-1] == pytest.approx(bias.long_run_inflation(RHO, lags)) == 1 + (SIZE - 1) * RHO


def epochs_of(size, lanes, batch, runs=60):
    """Return float64 [runs, batches] of three epochs each, the variance of a frame, and ρ.

    Epochs of the samplers themselves, on gradients that are alike within a GOP.
    """
    population = Population.of([np.full(128, 8)] * 16)
    rng = np.random.default_rng(4)
    frames = population.num_frames
    gradients = np.repeat(rng.normal(size=frames // 8), 8) + rng.normal(size=frames)
    gradients -= gradients.mean()
    variance = (gradients**2).mean()
    rho = (8 * (gradients.reshape(-1, 8).mean(1) ** 2).mean() / variance - 1) / 7
    sampler = ShuffledFrames() if size == 1 else Bursts(frames_per_burst=size, lanes=lanes)
    orders = np.stack([sampler.order(population, epoch)[:] for epoch in range(3 * runs)])
    return gradients[orders].reshape(runs, -1, batch).mean(2), variance, rho


EPOCH = {"frames": 128 * 8 * 16, "batch_size": 64}


@pytest.mark.parametrize(("size", "lanes"), [(1, 64), (8, 64), (8, 24)])
def test_epochs_inflate_the_noise_of_sgd_and_their_batches_correlate_as_predicted(size, lanes):
    """With contraction 1 it is the noise of a batch: the design effect, and the frames it lacks."""
    (batches, variance, rho), lags = epochs_of(size, lanes, 64), bias.mate_lags(size, lanes, 64)
    for contraction in (1, 0.03):
        found = sgd(batches, contraction, skip=EPOCH["frames"] // 64)
        by_chance = variance / 64 / (1 - (1 - contraction) ** 2)
        expected = bias.epoch_inflation(rho, lags, contraction=contraction, **EPOCH)
        assert abs(z_score(found / by_chance, expected)) < 5, contraction
    correlation = bias.epoch_autocorrelation(rho, lags, 6, **EPOCH)
    for lag in (1, 3, 6):
        products = (batches[:, lag:] * batches[:, :-lag]).mean(1) / (batches**2).mean()
        assert abs(z_score(products, correlation[lag - 1])) < 5, lag
    assert (correlation[0] > 0.1) == (size > 1)


def test_frames_that_come_once_repel_each_other_from_batch_to_batch():
    """Two batches of an epoch of 2: each is what the other is not, and half of all pairs are so."""
    found = bias.epoch_autocorrelation(0.5, np.zeros(1), 3, frames=128, batch_size=64)
    assert found == pytest.approx([-0.5, 0, 0])


@given(size=st.integers(1, 9), lanes=st.integers(1, 99), rho=st.floats(0, 1))
def test_a_whole_epoch_has_no_noise_at_all(size, lanes, rho):
    lags = bias.mate_lags(size, lanes, 32)
    felt = bias.epoch_inflation(rho, lags, frames=32 * 400, batch_size=32, contraction=0)
    assert felt == pytest.approx(0, abs=1e-9)


def test_runs_correlate_as_the_mean_over_their_pairs():
    correlation = np.array([0.9, 0.6, 0.1])
    pairs = [correlation[abs(i - j) - 1] for i in range(4) for j in range(4) if i != j]
    assert bias.run_correlation(correlation) == pytest.approx(np.mean(pairs))


GOPS, BURSTS = np.array([250, 80, 30, 120, 20] * 20), Bursts(frames_per_burst=8, lanes=64)


@pytest.mark.parametrize(
    ("sampler", "options", "cost", "inflation", "next_batch"),
    [
        (UniformFrames(), {}, lookahead_cost(GOPS, 1), 1, 0),
        (UniformFrames(), {"lookahead": 500}, lookahead_cost(GOPS, 500), 1, 0),
        (ShuffledFrames(), {"lookahead": 500}, lookahead_cost(GOPS, 500), 1, -0.0063),
        (BURSTS, {"rho": 0.5}, burst_cost(GOPS, 8, 64), 4.5, (0.5 * 7 / 8 - 0.028) / (1 - 0.028)),
    ],
)
def test_one_call_tells_all_of_a_strategy_on_a_set(sampler, options, cost, inflation, next_batch):
    found = assess(sampler, GOPS, batch_size=64, frame_bytes=1000, **options)
    assert (found.bias_bound, found.design_effect) == (0, 1)
    assert found.inflation == inflation
    assert found.cost.amplification == pytest.approx(cost.amplification)
    assert found.cost.seeks == pytest.approx(cost.seeks)
    assert found.held_bytes == pytest.approx(1000 * cost.held_frames, abs=1)
    assert len(found.autocorrelation) == bias.LAGS
    assert found.autocorrelation[0] == pytest.approx(next_batch, abs=0.001)


def test_fewer_lanes_than_a_batch_show_in_the_design_effect():
    found = assess(Bursts(frames_per_burst=8, lanes=16), GOPS, batch_size=64, rho=0.9)
    assert found.design_effect == bias.design_effect(0.9, bias.mate_lags(8, 16, 64)) > 3


def bursts(rng, rho: float, *, videos: int = 20, per_video: int = 4, dims: int = 3):
    """Features, bursts and videos of bursts of 2 to 5 frames that correlate by rho."""
    sizes = rng.integers(2, 6, videos * per_video)
    burst = np.repeat(np.arange(len(sizes)), sizes)
    shared = rng.normal(size=(len(sizes), dims))[burst]
    features = np.sqrt(rho) * shared + np.sqrt(1 - rho) * rng.normal(size=shared.shape)
    return features, burst, burst // per_video


@pytest.mark.parametrize("videos", [5, 30])
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.8])
def test_the_interval_holds_the_true_correlation_19_times_out_of_20(rho, videos):
    rng = np.random.default_rng(5)
    found = [burst_correlation(*bursts(rng, rho, videos=videos)) for _ in range(200)]
    held = sum(each.low <= rho <= each.high for each in found)
    low, high = binomial_bounds(200, 0.95, 1e-4)
    assert low <= held <= high
    assert all(each.low <= each.value <= each.high for each in found)
    values = np.array([each.value for each in found])
    assert values.mean() == pytest.approx(rho, abs=0.02)


def test_the_order_of_frames_does_not_matter_and_frames_that_are_alike_correlate_fully():
    rng = np.random.default_rng(7)
    features, burst, video = bursts(rng, 1.0)
    assert burst_correlation(features, burst, video).value == pytest.approx(1)
    features, burst, video = bursts(rng, 0.5)
    mixed = rng.permutation(len(burst))
    expected = burst_correlation(features, burst, video)
    found = burst_correlation(features[mixed], burst[mixed] * 7, video[mixed])
    assert (found.value, found.low) == (pytest.approx(expected.value), pytest.approx(expected.low))


@pytest.mark.parametrize("lanes", [32, 48, 10])
def test_mates_are_counted_where_bursts_deliver_them(lanes):
    population = Population.of([np.full(16, 8)] * 256)
    order = Bursts(frames_per_burst=8, lanes=lanes).order(population, 0)
    gops = population.gop_of(order[:]).reshape(-1, 32)
    expected = bias.mate_lags(8, lanes, 32)
    found = measured_mate_lags(gops, population.gop_lengths, len(expected))
    assert found == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("sampler", [UniformFrames(), ShuffledFrames()])
def test_frames_that_meet_by_chance_are_no_mates(sampler):
    population = Population.of([np.full(16, 100)] * 4)
    gops = population.gop_of(sampler.order(population, 0)[:]).reshape(-1, 32)
    assert np.abs(measured_mate_lags(gops, population.gop_lengths, 4)).max() < 0.1
