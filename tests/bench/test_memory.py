"""Batches grow up to the memory limit; findings on their peaks."""

import pytest

from bench.records import local_provenance
from headrace.bench import memory
from headrace.bench.memory_processes import _cells, climb, process_name
from headrace.profiling.resource_usage import forget_peak, peak_memory_bytes
from headrace.runs.run_options import ComputeOptions
from headrace.runtime.child_process import CompletedChild

HELD, FRAME = 1000, 10


def climbed(batch_sizes, limit, *, most=10**9):
    """Return the result of each batch, at 10 bytes per frame, and the batch sizes that ran."""
    ran = []

    def peaks(batch_size):
        ran.append(batch_size)
        return None if batch_size > most else {"peak_bytes": HELD + FRAME * batch_size}

    messages = climb(batch_sizes, peaks, base_bytes=HELD, limit=limit)
    return [message for message in messages if message["status"] != "begun"], ran


GOOD, OVER, FULL = "measured", "over_limit", "out_of_memory"


@pytest.mark.parametrize(
    ("batch_sizes", "limit", "most", "run", "expected"),
    [
        ([1, 4, 16], 1160, 99, [1, 4, 16], [(GOOD, 1010), (GOOD, 1040), (GOOD, 1160)]),
        # Batches predicted above the limit are not run.
        (
            [1, 4, 16, 64],
            1159,
            99,
            [1, 4],
            [(GOOD, 1010), (GOOD, 1040), (OVER, 1160), (OVER, 1640)],
        ),
        # A batch of one frame runs first if only larger ones are requested.
        ([16, 64], 1200, 99, [1, 16], [(GOOD, 1160), (OVER, 1640)]),
        ([10**6], 1200, 99, [1], [(OVER, 10_001_000)]),
        # The model alone exceeds the limit.
        ([1, 2], HELD - 1, 99, [], [(OVER, HELD), (OVER, HELD)]),
        # After running out of memory, larger batches are not tried.
        ([1, 2, 4, 8], 10**9, 2, [1, 2, 4], [(GOOD, 1010), (GOOD, 1020), (FULL, 0), (FULL, 0)]),
    ],
)
def test_batches_grow_as_long_as_they_fit(batch_sizes, limit, most, run, expected):
    results, ran = climbed(batch_sizes, limit, most=most)
    assert ran == run
    assert [result["batch_size"] for result in results] == batch_sizes
    assert expected == [
        (result["status"], result.get("peak_bytes") or result.get("predicted_bytes") or 0)
        for result in results
    ]


def test_each_batch_is_announced_before_it_runs():
    messages = climb([1, 2], lambda n: None, base_bytes=0, limit=9)
    statuses = [message["status"] for message in messages]
    assert statuses == ["begun", "out_of_memory", "out_of_memory"]


def cells(*messages, exit_code=0, error=None, has_timed_out=False):
    """Return the records of batches of 1, 2 and 4 frames of an ended process."""
    ended = {"exit_code": exit_code, "has_timed_out": has_timed_out, "error": error, "seconds": 3}
    sent = ({"base_bytes": 100, "limit_bytes": 900}, *messages)
    ending = CompletedChild(name=process_name("float32", SIZES[:1]), messages=sent, **ended)
    return list(_cells(memory.MemoryConfig(batch_sizes=(4, 1, 2)), "float32", SIZES[:1], ending))


ONE = {"size": [720, 1280], "batch_size": 1, "status": "measured", "peak_bytes": 150}
BEGUN = {"size": [720, 1280], "batch_size": 2, "status": "begun"}


GONE, FAILED = "out_of_memory", "failed"


@pytest.mark.parametrize(
    ("messages", "ended", "statuses", "whys"),
    [
        # A killed process loses the current batch; before its first batch, it has failed.
        ((ONE, BEGUN), {"exit_code": -9}, [GOOD, GONE, GONE], [None] * 3),
        ((), {"exit_code": -9}, [FAILED] * 3, ["float32, 720p ended by signal 9"] * 3),
        # A failed or timed-out process reports a reason.
        (
            (ONE, BEGUN),
            {"exit_code": 1, "error": "BackendError: it cannot run\nbecause"},
            [GOOD, FAILED, FAILED],
            [None, "it cannot run", "it cannot run"],
        ),
        (
            (ONE, BEGUN),
            {"exit_code": -9, "has_timed_out": True},
            [GOOD, FAILED, FAILED],
            [None, *["float32, 720p was stopped: it did not finish within 3.0 s"] * 2],
        ),
    ],
)
def test_every_batch_has_a_record_however_its_process_ended(messages, ended, statuses, whys):
    records = cells(*messages, **ended)
    assert [cell.batch_size for cell in records] == [1, 2, 4]
    assert [cell.base_bytes for cell in records] == [100] * 3
    assert [cell.status for cell in records] == statuses
    assert [cell.why for cell in records] == whys
    assert [cell.peak_bytes for cell in records] == [150 if messages else None, None, None]


@pytest.mark.skipif(not forget_peak(), reason="this system cannot reset the peak")
def test_a_peak_can_be_reset():
    held = bytearray(200 << 20)
    high = peak_memory_bytes()
    del held
    forget_peak()
    assert peak_memory_bytes() < high - (150 << 20)


MIB = 2**20
SIZES = (
    memory.SizeRecord(name="720p", height=720, width=1280),
    memory.SizeRecord(name="4K", height=2160, width=3840),
)


def cell(size, batch_size, mib=None, *, precision="float32", status=None, **more):
    options = {"size": size, "batch_size": batch_size, "precision": precision}
    return memory.CellRecord(
        status=status or ("over_limit" if mib is None else "measured"),
        peak_bytes=None if mib is None else mib * MIB,
        base_bytes=300 * MIB,
        **options | more,
    )


def recorded(*cells, **changed):
    usual = {
        **{"model": "mobilenet_v2", "device": "cpu", "device_name": "A processor"},
        **{"limit_bytes": 2 << 30, "sizes": SIZES, "not_kept": None},
    }
    return memory.MemoryRecord(
        provenance=local_provenance(prep_level="medium"), cells=cells, **{**usual, **changed}
    )


USUAL = (
    *(cell("720p", 1, 400), cell("4K", 1, 500)),
    *(cell("720p", 4, 430), cell("4K", 4, 1100)),
    *(cell("720p", 16, 550), cell("4K", 16)),
    cell("720p", 1, 390, precision="bfloat16"),
    cell("4K", 1, 490, precision="bfloat16"),
    cell("720p", 4, 410, precision="bfloat16"),
    cell("4K", 4, 880, precision="bfloat16"),
    cell("720p", 16, 490, precision="bfloat16"),
    cell("4K", 16, precision="bfloat16", status="out_of_memory"),
)


def test_findings_on_peak_memory(check_pages):
    lost = {"precision": "float16", "status": "failed", "why": "no float16 here"}
    on_gpu = [cell(c.size, c.batch_size, 400, allocated_bytes=380 * MIB) for c in USUAL[:2]]
    cases = {
        "some do not fit": recorded(*USUAL),
        "all fit": recorded(*USUAL[:4]),
        "none fits": recorded(cell("720p", 1), cell("4K", 1)),
        "one was run and did not fit": recorded(
            *USUAL[:2], cell("720p", 4, 430), cell("4K", 4, status="out_of_memory")
        ),
        "one failed": recorded(*USUAL[:2], cell("720p", 1, **lost), cell("4K", 1, **lost)),
        "on a GPU": recorded(*on_gpu, device="cuda", device_name="Card A"),
        "the table is not kept": recorded(*USUAL, not_kept="cannot write there: no space left"),
    }
    check_pages(memory.MEMORY, cases)
    failed, gpu = memory.MEMORY.page(cases["one failed"]), memory.MEMORY.page(cases["on a GPU"])
    assert failed.table.rows[-1] == ("float16 × 1", "failed", "failed")
    assert gpu.table.rows[0] == ("float32 × 1", "380/400", "380/400")
    assert gpu.title == "Peak memory of mobilenet_v2 in MiB, on Card A"


def test_the_model_is_that_of_a_run_which_takes_the_figures():
    assert memory.MemoryConfig().model_name == ComputeOptions().model_name


def test_the_maximum_time_is_announced():
    assert memory.announce(memory.MemoryConfig(sizes=("4K",), videos=("a.mp4",))) == (
        "Time: a few seconds for each of 4 rows of batches, at most 2 min 00 s each"
    )
