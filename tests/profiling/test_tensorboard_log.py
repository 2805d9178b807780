"""Scalars of each step, read back by TensorBoard's own reader."""

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from headrace.profiling.tensorboard_log import TensorBoardLog
from report.recorded import step_of


def step(number, **given):
    return step_of(
        **{"number": number, "frames": 4, "started_ms": 100.0 * number, "total_ms": 60.0},
        work_ms={"decode": 10.0, "model": 40.0},
        **given,
    )


def scalars(folder):
    """Return tag -> (step, value) of each."""
    found = EventAccumulator(str(folder)).Reload()
    tags = found.Tags()["scalars"]
    return {tag: [(each.step, each.value) for each in found.Scalars(tag)] for tag in tags}


def test_each_step_is_there_with_its_figures(tmp_path):
    log = TensorBoardLog(SummaryWriter(str(tmp_path)))
    log.add(step(0, arrived_ms=20.0), {"decode": 2})
    log.add(step(1, loss=0.5), {"decode": 1})
    log.close()
    found = scalars(tmp_path)
    assert all(value > 0 for _, value in found.pop("memory_mib/process"))
    assert found == {
        "throughput/frames_per_second": [(1, 40)],
        "stage_ms/decode": [(0, 10), (1, 10)],
        "stage_ms/model": [(0, 40), (1, 40)],
        "step_ms/total": [(0, 60), (1, 60)],
        "latency_ms/newest_frame": [(0, 40)],
        "loss": [(1, 0.5)],
        "queue_depth/decode": [(0, 2), (1, 1)],
    }
