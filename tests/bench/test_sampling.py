"""Strategies take turns on the same frames, and only after those were proven equal."""

import pytest

from headrace.bench.benchmark import Context
from headrace.bench.frame_equality import check_equal
from headrace.bench.sampling import SamplingConfig, measure_sampling
from headrace.bench.sampling_record import SamplingRecord
from headrace.bench.sampling_variants import Setting
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
def test_a_frame_that_differs_in_one_bit_is_an_error(videos, store, batch_size, count):
    setting = Setting(
        videos=VideoSet.open(videos, store=store),
        batch_size=batch_size,
        size=(16, 16),
        memory_budget=2**18,
        frames_per_burst=4,
        workers=1,
        rho=0.5,
        store=store,
    )
    assert check_equal(setting) == count
    with pytest.raises(DecodeError, match=r"frame \d+ of .*\.mp4 .* is not the same") as said:
        check_equal(setting, Flipped(setting.videos, setting.size))
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
