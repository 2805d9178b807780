"""The table of memory, what it says and what it leaves open."""

import pytest

from headrace.bench.memory import CellRecord, FrameSizeRecord, MemoryConfig, MemoryRecord, announce
from headrace.bench.memory_report import MEMORY
from headrace.errors import ConfigError
from headrace.profiling.machine import provenance
from headrace.report.experiment import render_experiment, render_experiment_text
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
    return MemoryRecord(
        provenance=provenance({"prep_level": "medium"}, ("headrace", "bench", "memory")),
        **{
            "model": "mobilenet_v2",
            "device": "cpu",
            "device_name": "A processor",
            "limit_bytes": 2 << 30,
            "sizes": SIZES,
            "cells": cells,
            "not_kept": None,
            **changed,
        },
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


def found(*cells, **changed):
    [finding] = MEMORY.page(recorded(*cells, **changed)).findings
    return finding


def test_the_text_is_a_column_for_each_size_and_what_fits():
    assert render_experiment_text(MEMORY.page(recorded(*USUAL))) == TEXT


TEXT = """\
Peak memory of mobilenet_v2 in MiB, of a process on the CPU

  precision × batch  720p         4K
        float32 × 1   400        500
        float32 × 4   430      1,100
       float32 × 16   550    > limit
       bfloat16 × 1   390        490
       bfloat16 × 4   410        880
      bfloat16 × 16   490  no memory

Frames at 4K in float32: batches of 16 would not fit into 2.00 GiB; of 4 they do
  - Measured on the CPU, as there is no other figure here: the peak of a whole process, Python and
    PyTorch included.
  - Before the first batch 0.293 GiB are held: Python, PyTorch and the model.
  - Each further frame in a batch takes, in float32: 720p 10.0 MiB, 4K 200 MiB.
  - bfloat16 takes 0.800 times what float32 takes with batches of 4 at 4K.
  - “> limit” was not run: by the batches before it, it would take more than the 2.00 GiB that
    --max-memory allows.
  - “no memory” was run and ran out of it, or a smaller batch had.
  - The table is kept for this device, model and PyTorch; with others it is not used.
  Try next: headrace run --batch-size auto, which starts from these figures for this model.
"""


def test_where_all_fit_the_most_is_named():
    finding = found(*USUAL[:4])
    assert finding.headline == (
        "All fit into 2.00 GiB: batches of 4 at 4K in float32 take 1.07 GiB"
    )


def test_where_nothing_fits_it_is_said():
    assert found(cell("720p", 1), cell("4K", 1)).headline == (
        "Frames at 4K in float32: batches of 1 would not fit into 2.00 GiB, and nothing smaller ran"
    )


def test_what_was_run_and_did_not_fit_is_told_from_what_was_not_run():
    cells = [*USUAL[:2], cell("720p", 4, 430), cell("4K", 4, status="out_of_memory")]
    assert found(*cells).headline == (
        "Frames at 4K in float32: batches of 4 do not fit into 2.00 GiB; of 1 they do"
    )


def test_what_failed_is_said_with_its_reason():
    half = [
        cell(size, 1, precision="float16", status="failed", why="no float16 here")
        for size in ("720p", "4K")
    ]
    finding = found(*USUAL[:2], *half)
    assert "Not measured: no float16 here." in finding.evidence
    text = render_experiment_text(MEMORY.page(recorded(*USUAL[:2], *half)))
    assert "float16 × 1  failed  failed" in text


def test_a_gpu_has_two_figures():
    cells = [cell(each.size, each.batch_size, 400, allocated_bytes=380 * MIB) for each in USUAL[:2]]
    record = recorded(*cells, device="cuda", device_name="Card A")
    text = render_experiment_text(MEMORY.page(record))
    assert text.startswith("Peak memory of mobilenet_v2 in MiB, on Card A\n")
    assert "float32 × 1  380/400  380/400" in text
    assert "Measured on the GPU" in text


def test_a_table_that_cannot_be_kept_is_advised_to_nobody():
    finding = found(*USUAL, not_kept="cannot write there: no space left")
    assert (finding.change, finding.advice) == (None, None)
    assert finding.evidence[-1] == (
        "The table is not kept for --batch-size auto: cannot write there: no space left."
    )


def test_an_old_record_gives_the_same_page_again():
    record = recorded(*USUAL)
    again = MemoryRecord.model_validate_json(record.model_dump_json())
    assert render_experiment(MEMORY.page(again)) == render_experiment(MEMORY.page(record))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sizes": ("8K",)}, "sizes must be among 360p, 720p, 1080p, 4K; got 8K"),
        ({"sizes": ()}, "sizes and precisions must name one at least, got none"),
        ({"precisions": ("int8",)}, "precisions must be among auto, float32, .*; got int8"),
        ({"batch_sizes": (0, 2)}, "batch_sizes must be numbers from 1 up"),
        ({"max_memory": "lots"}, "a size must read like"),
    ],
)
def test_what_is_not_possible_is_said(options, said):
    with pytest.raises(ConfigError, match=said):
        MemoryConfig(**options)


def test_the_model_is_that_of_a_run_which_takes_the_figures():
    assert MemoryConfig().model_name == ComputeOptions().model_name


def test_how_long_it_can_take_is_said_first():
    assert announce(MemoryConfig(sizes=("4K",), videos=("a.mp4",))) == (
        "Time: some seconds for each of 4 rows of batches, at most 2 min 00 s each"
    )
