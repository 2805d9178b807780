"""Transfer benchmark: equal tensors of all variants, and counted bytes."""

import pytest

from bench.records import recorded
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
    check_equal,
    open_flows,
)
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
    with open_flows(open_index(video, store), config, SYSTEM_CLOCK, device="cpu") as flows:
        yield flows


@pytest.fixture
def record(measure, video):
    return measure(TRANSFER, videos=(video,), size=SIZE, batch_size=4)


@needs_no_gpu
def test_without_a_gpu_bytes_are_counted_but_no_variant_is_timed(record):
    assert [(stats.way, stats.up_bytes, stats.down_bytes) for stats in record.ways] == [
        (PAGEABLE, FLOAT32_BYTES, 0),
        (PINNED, FLOAT32_BYTES, 0),
        (UINT8, UINT8_BYTES, 0),
        (DOWNLOADED, None, None),
        (KEPT, None, None),
    ]
    *differences, kept = (stats.most_apart for stats in record.ways)
    assert (differences, kept <= 5) == ([None, 0, 0, None], True), "equal tensors"
    assert {stats.why_not for stats in record.ways} == {NO_GPU}
    assert (record.turns, record.gpu) == ((), None)


@needs_gpu
def test_copied_bytes_with_a_gpu(record):
    by_name = {stats.way: stats for stats in record.ways}
    assert [by_name[name].up_bytes for name in (PAGEABLE, PINNED)] == [FLOAT32_BYTES] * 2
    assert by_name[UINT8].up_bytes == UINT8_BYTES
    if by_name[DOWNLOADED].why_not is None:
        assert by_name[DOWNLOADED].up_bytes == FLOAT32_BYTES
        assert by_name[DOWNLOADED].down_bytes >= 96 * 128 * 3 / 2
    if by_name[KEPT].why_not is None:
        assert by_name[KEPT].up_bytes == 0
    assert {turn.way for turn in record.turns} == {w for w in by_name if not by_name[w].why_not}


@needs_no_gpu
def test_a_variant_with_different_tensors_is_refused(flows):
    flows[PINNED].carrier = Transfer("cpu", lambda tensor, device: tensor + 1)
    with pytest.raises(BackendError, match=r"tensors of CPU, float32, pinned differ"):
        check_equal(flows, "cpu")


def test_a_video_shorter_than_a_repetition_restarts(flows):
    flow = flows[PAGEABLE]
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
    """Return a record of a GPU, from variant -> seconds for 100 frames."""
    return recorded(
        {variant: [duration] for variant, duration in seconds.items()},
        TransferRecord,
        **{"size": (224, 224), "batch_size": 16, "gpu": "H100", "ways": MEASURED, **fields},
    )


def test_findings_on_copies(check_pages):
    untimed = [row.model_copy(update={"why_not": NO_GPU, "after_ms": None}) for row in MEASURED]
    cases = {
        "on a GPU": measured({PAGEABLE: 0.2, UINT8: 0.1, DOWNLOADED: 0.4}),
        "without one": measured({}, gpu=None, ways=untimed),
    }
    check_pages(TRANSFER, cases)


def test_the_chart_shows_counted_bytes_in_both_directions():
    [chart] = TRANSFER.page(measured({PAGEABLE: 0.2})).charts
    assert [(bars.name, list(bars.x)) for bars in chart.figure.data] == [
        ("CPU to GPU", [602.112, 150.528, 602.112]),
        ("GPU to CPU", [0, 0, 3110.4004]),
    ]
