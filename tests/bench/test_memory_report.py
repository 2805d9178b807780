"""The table of memory, what it says and what it leaves open."""

from bench.shown import check_shown, made
from headrace.bench.memory import CellRecord, FrameSizeRecord, MemoryConfig, MemoryRecord, announce
from headrace.bench.memory_report import MEMORY
from headrace.runs.options import ComputeOptions

MIB = 2**20
SIZES = (
    FrameSizeRecord(name="720p", height=720, width=1280),
    FrameSizeRecord(name="4K", height=2160, width=3840),
)


def cell(size, batch_size, mib=None, *, precision="float32", status=None, **more):
    return CellRecord(
        size=size,
        batch_size=batch_size,
        precision=precision,
        status=status or ("over_limit" if mib is None else "measured"),
        peak_bytes=None if mib is None else mib * MIB,
        base_bytes=300 * MIB,
        **more,
    )


def recorded(*cells, **changed):
    usual = {
        **{"model": "mobilenet_v2", "device": "cpu", "device_name": "A processor"},
        **{"limit_bytes": 2 << 30, "sizes": SIZES, "not_kept": None},
    }
    return MemoryRecord(provenance=made(prep_level="medium"), cells=cells, **{**usual, **changed})


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


def test_what_batches_take_is_told_like_this():
    lost = {"precision": "float16", "status": "failed", "why": "no float16 here"}
    card = [cell(each.size, each.batch_size, 400, allocated_bytes=380 * MIB) for each in USUAL[:2]]
    cases = {
        "some do not fit": recorded(*USUAL),
        "all fit": recorded(*USUAL[:4]),
        "none fits": recorded(cell("720p", 1), cell("4K", 1)),
        "one was run and did not fit": recorded(
            *USUAL[:2], cell("720p", 4, 430), cell("4K", 4, status="out_of_memory")
        ),
        "one failed": recorded(*USUAL[:2], cell("720p", 1, **lost), cell("4K", 1, **lost)),
        "on a GPU": recorded(*card, device="cuda", device_name="Card A"),
        "the table is not kept": recorded(*USUAL, not_kept="cannot write there: no space left"),
    }
    check_shown(MEMORY, cases)
    failed, gpu = MEMORY.page(cases["one failed"]), MEMORY.page(cases["on a GPU"])
    assert failed.table.rows[-1] == ("float16 × 1", "failed", "failed")
    assert gpu.table.rows[0] == ("float32 × 1", "380/400", "380/400")
    assert gpu.title == "Peak memory of mobilenet_v2 in MiB, on Card A"


def test_the_model_is_that_of_a_run_which_takes_the_figures():
    assert MemoryConfig().model_name == ComputeOptions().model_name


def test_how_long_it_can_take_is_said_first():
    assert announce(MemoryConfig(sizes=("4K",), videos=("a.mp4",))) == (
        "Time: some seconds for each of 4 rows of batches, at most 2 min 00 s each"
    )
