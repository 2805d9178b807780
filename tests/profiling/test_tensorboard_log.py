"""Scalars of each step, as TensorBoard's reader reads them."""

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from headrace.profiling.tensorboard_log import TensorBoardLog
from report.recorded import step_of


def step(number, **fields):
    return step_of(
        **{"number": number, "frames": 4, "started_ms": 100.0 * number, "total_ms": 60.0},
        work_ms={"decode": 10.0, "model": 40.0},
        **fields,
    )


def scalars(folder):
    """Return tag → [(step, value)]."""
    events = EventAccumulator(str(folder)).Reload()
    tags = events.Tags()["scalars"]
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags}


def test_the_log_has_the_figures_of_each_step(tmp_path):
    log = TensorBoardLog(SummaryWriter(str(tmp_path)))
    log.add(step(0, arrived_ms=20.0), {"decode": 2})
    log.add(step(1, loss=0.5), {"decode": 1})
    log.close()
    logged = scalars(tmp_path)
    assert all(value > 0 for _, value in logged.pop("memory_mib/process"))
    assert logged == {
        "throughput/frames_per_second": [(1, 40)],
        "stage_ms/decode": [(0, 10), (1, 10)],
        "stage_ms/model": [(0, 40), (1, 40)],
        "step_ms/total": [(0, 60), (1, 60)],
        "latency_ms/newest_frame": [(0, 40)],
        "loss": [(1, 0.5)],
        "queue_depth/decode": [(0, 2), (1, 1)],
    }
