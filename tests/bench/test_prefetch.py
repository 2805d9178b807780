"""A loop that takes its time with each batch, on real workers and a clock that only waits move."""

from dataclasses import replace

import pytest

from headrace.bench.benchmark import Context
from headrace.bench.prefetch import measure_prefetch
from headrace.bench.prefetch_loop import PrefetchLoop
from headrace.bench.prefetch_record import PrefetchConfig, PrefetchRecord, Setting
from headrace.decode.index_store import IndexStore
from headrace.errors import ConfigError, OpenError, StageError
from headrace.testing.fake_clock import FakeClock
from headrace.testing.synth import SynthClip, write_clip

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def videos(tmp_path):
    return [write_clip(tmp_path / f"{k}", SynthClip(num_frames=12)) for k in range(2)]


def config(videos, **options):
    usual = {"clip_len": 3, "stride": 1, "size": (16, 16), "batch_size": 2}
    return PrefetchConfig(videos=tuple(map(str, videos)), **{**usual, **options})


@pytest.fixture
def context(tmp_path):
    return Context(store=IndexStore(tmp_path / "index"), clock=FakeClock())


class TickingClock(FakeClock):
    """Every reading takes a microsecond as well."""

    def now_ns(self):
        self.advance(1e-6)
        return super().now_ns()


@pytest.mark.parametrize("factor", [1, 4])
def test_a_turn_counts_its_batches_and_what_the_loop_did_with_each(videos, context, factor):
    """The clock stands still while batches are waited for, so only the steps take time."""
    with PrefetchLoop(config(videos, prefetch_factor=(1, 4)), 5, context) as loop:
        turn = loop.take(Setting(prefetch_factor=factor, is_pinned=False), step_ms=40)
    assert (turn.prefetch_factor, turn.is_pinned, turn.frames) == (factor, False, 5 * 2 * 3)
    assert turn.intervals_ms == (40,) * 5
    assert turn.waits_ms == (0,) * 5
    assert turn.copies_ms == ()
    assert turn.seconds == pytest.approx(0.2)
    assert turn.memory_bytes > 10**6


def test_every_setting_has_its_turns_and_the_step_is_as_given(videos, context):
    context = replace(context, clock=TickingClock())
    record = measure_prefetch(
        config(videos, prefetch_factor=(4, 1), step_ms=100.0, seconds=1.0, repeats=2), context
    )
    assert [turn.prefetch_factor for turn in record.turns] == [1, 4, 1, 4]
    assert {len(turn.waits_ms) for turn in record.turns} == {12}, "never fewer"
    assert record.step_ms == 100
    assert (record.batch_frames, record.batch_bytes) == (6, 6 * 16 * 16 * 3)
    assert record.provenance.configuration["prefetch_factor"] == "4,1"
    assert PrefetchRecord.model_validate_json(record.model_dump_json()) == record


def test_a_video_that_is_shorter_than_a_clip_begins_again(videos, context):
    with PrefetchLoop(config(videos, clip_len=40), 1, context) as loop:
        turn = loop.take(Setting(prefetch_factor=2, is_pinned=False), step_ms=1)
    assert turn.frames == 2 * 40


def test_clips_that_are_longer_than_the_video_are_refused(videos, context):
    with pytest.raises(ConfigError, match="the video has 12: 12 are possible"):
        measure_prefetch(config(videos, **{"clip_len": 99, "boundary": "error"}), context)


def test_a_missing_video_is_named_before_workers_start(context):
    with pytest.raises(OpenError, match=r"gone\.mp4"):
        measure_prefetch(config(["gone.mp4"]), context)


def test_what_fails_in_a_worker_is_told_in_one_line(videos, context):
    with PrefetchLoop(config(videos), 2, context) as loop:
        videos[1].unlink()
        with pytest.raises(StageError, match=r"a DataLoader worker failed: .*1\.mp4") as said:
            loop.take(Setting(prefetch_factor=2, is_pinned=False), step_ms=0)
    assert "\n" not in str(said.value)
