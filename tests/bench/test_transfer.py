"""Ways from a video to a tensor on a GPU: the same tensors, and the bytes that are copied."""

import pytest

from bench.shown import check_shown, recorded
from decode.gpus import needs_gpu, needs_no_gpu
from headrace.bench.transfer import (
    DOWNLOADED,
    KEPT,
    NO_GPU,
    PAGEABLE,
    PINNED,
    TRANSFER,
    UINT8,
    CopyStats,
    TransferConfig,
    TransferRecord,
)
from headrace.bench.transfer_variants import Flows
from headrace.decode.open_decoder import open_index
from headrace.errors import BackendError
from headrace.runs.run_stages import Transfer
from headrace.runtime.clock import SYSTEM_CLOCK

SIZE = (48, 64)
UINT8_BYTES = 48 * 64 * 3
FLOAT32_BYTES = 4 * UINT8_BYTES


@pytest.fixture
def video(clip):
    return clip(6, gop=3)


@pytest.fixture
def flows(video, store):
    config = TransferConfig(videos=(video,), size=SIZE, batch_size=4, seconds=0.01, repeats=1)
    with Flows(open_index(video, store), config, SYSTEM_CLOCK, device="cpu") as flows:
        yield flows


@pytest.fixture
def record(measure, video):
    return measure(TRANSFER, videos=(video,), size=SIZE, batch_size=4)


@needs_no_gpu
def test_without_a_gpu_bytes_are_counted_on_what_was_copied_and_nothing_is_timed(record):
    assert [(each.way, each.up_bytes, each.down_bytes) for each in record.ways] == [
        (PAGEABLE, FLOAT32_BYTES, 0),
        (PINNED, FLOAT32_BYTES, 0),
        (UINT8, UINT8_BYTES, 0),
        (DOWNLOADED, None, None),
        (KEPT, None, None),
    ]
    *apart, kept = (each.most_apart for each in record.ways)
    assert (apart, kept <= 5) == ([None, 0, 0, None], True), "all give the same tensors"
    assert {each.why_not for each in record.ways} == {NO_GPU}
    assert (record.turns, record.gpu) == ((), None)


@needs_gpu
def test_a_gpu_is_given_these_bytes_and_no_others(record):
    found = {each.way: each for each in record.ways}
    assert [found[way].up_bytes for way in (PAGEABLE, PINNED)] == [FLOAT32_BYTES] * 2
    assert found[UINT8].up_bytes == UINT8_BYTES
    if found[DOWNLOADED].why_not is None:
        assert found[DOWNLOADED].up_bytes == FLOAT32_BYTES
        assert found[DOWNLOADED].down_bytes >= 96 * 128 * 3 / 2
    if found[KEPT].why_not is None:
        assert found[KEPT].up_bytes == 0
    assert {turn.way for turn in record.turns} == {w for w in found if not found[w].why_not}


@needs_no_gpu
def test_a_variant_that_gives_other_tensors_is_named_and_nothing_is_timed(flows):
    flows._flows[PINNED].carrier = Transfer("cpu", lambda tensor, device: tensor + 1)
    with pytest.raises(BackendError, match=r"CPU, float32, pinned gives other tensors than"):
        flows.prove()


def test_a_video_is_read_again_where_a_turn_is_longer(flows):
    flow = flows._flows[PAGEABLE]
    assert [len(flow.next()) for _ in range(4)] == [4, 2, 4, 2]
    assert flow.frames == 12


MEASURED = [
    CopyStats(way=PAGEABLE, up_bytes=602112, down_bytes=0, after_ms=0.5),
    CopyStats(way=UINT8, up_bytes=150528, down_bytes=0, after_ms=0.1, most_apart=0, mean_apart=0),
    CopyStats(
        way=DOWNLOADED, up_bytes=602112, down_bytes=3110400.4, after_ms=0.6, most_apart=0.001
    ),
    CopyStats(way=KEPT, why_not="GPU 0 was asked for; it cannot"),
]


def measured(seconds, **fields):
    """Return a record of a GPU on which ways took so long for 100 frames."""
    return recorded(
        {way: [each] for way, each in seconds.items()},
        TransferRecord,
        **{"size": (224, 224), "batch_size": 16, "gpu": "H100", "ways": MEASURED, **fields},
    )


def test_ways_to_copy_are_judged_like_this():
    nothing = [each.model_copy(update={"why_not": NO_GPU, "after_ms": None}) for each in MEASURED]
    cases = {
        "on a GPU": measured({PAGEABLE: 0.2, UINT8: 0.1, DOWNLOADED: 0.4}),
        "without one": measured({}, gpu=None, ways=nothing),
    }
    check_shown(TRANSFER, cases)


def test_the_chart_shows_bytes_both_ways_of_what_was_counted():
    [chart] = TRANSFER.page(measured({PAGEABLE: 0.2})).charts
    assert [(bars.name, list(bars.x)) for bars in chart.figure.data] == [
        ("CPU to GPU", [602.112, 150.528, 602.112]),
        ("GPU to CPU", [0, 0, 3110.4004]),
    ]
