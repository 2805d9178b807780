"""Launches: common start, failures of workers, interrupts, and the record."""

import os
import sys
from pathlib import Path

import pytest

from headrace.errors import BackendError, ConfigError
from headrace.profiling.session import NOT_ALL
from headrace.runs.launch import launching
from headrace.runs.launch.launch_record import describe_exit, killed_words
from headrace.runtime.child_process import CompletedChild
from headrace.runtime.spawned_processes import Rendezvous
from headrace.testing.fake_clock import FakeClock
from report.recorded import record
from runtime.in_time import in_time

STAND_IN = (sys.executable, str(Path(__file__).parent / "stand_in.py"))


def launch(tmp_path, workers, *, nsys=False, **fields):
    """Return a launch of fake workers (name -> behaviour), with other `fields`."""
    configs = [
        launching.WorkerConfig(name=name, arguments=(behaviour,), nsys=nsys)
        for name, behaviour in workers.items()
    ]
    defaults = {"program": STAND_IN, "environment": dict(os.environ)}
    defaults["command"] = ("headrace", "launch", "launch.yaml")
    config = launching.LaunchConfig(workers=tuple(configs))
    return launching.Launch(config=config, out=tmp_path / "out", **{**defaults, **fields})


def run(started, **options):
    started.check()
    return in_time(lambda: started.run(**options))


def test_workers_start_together_and_leave_one_record(tmp_path):
    events = []
    workers = {"cars": "complete", "people": "partial"}
    result = run(launch(tmp_path, workers, on_event=events.append))
    ends = [(worker.name, worker.outcome, worker.exit_code) for worker in result.workers]
    assert ends == [("cars", "complete", 0), ("people", "complete", NOT_ALL)]
    first = result.workers[0]
    assert first.command == ("headrace", "run", "complete", "--out", str(tmp_path / "out/cars"))
    assert first.figures.frames == 40 * 16
    assert first.figures.finding.startswith("Bound by the model")
    assert first.figures.others_cpu_share == 0.44
    assert result.others_cpu_share is None or 0 <= result.others_cpu_share <= 1
    assert first.figures.work_ms["model"] == pytest.approx(230 / 16, rel=0.1)
    assert result.start_spread_ms >= 0
    assert result.together_seconds == pytest.approx(first.figures.wall_seconds, abs=1)
    states = [event.state for event in events]
    assert set(states[:2]) == {"ready"}, "no run starts before all workers are ready"
    assert {(event.worker, event.frames) for event in events} >= {("cars", 3), ("people", 3)}


def test_passwords_are_not_in_the_process_list_or_the_record(tmp_path):
    """The fake worker prints its arguments."""
    program = (sys.executable, "-c", "import sys; print(open(sys.argv[1]).read(), sys.argv)")
    started = launch(tmp_path, {"cam": "rtsp://bob:p@ss/w@host/cam"}, program=program)
    (worker,) = run(started).workers
    source, arguments = worker.last_lines
    assert source == "rtsp://bob:p@ss/w@host/cam"
    assert "cam-0.streams" in arguments
    assert "ss/w" not in arguments + worker.model_dump_json(exclude={"last_lines"})
    assert worker.command[2] == "rtsp://***@host/cam"


def test_if_one_worker_cannot_start_none_does_and_all_errors_are_recorded(tmp_path):
    workers = {"good": "complete", "bad": "refuse", "worse": "refuse"}
    good, bad, worse = run(launch(tmp_path, workers)).workers
    error = "it waited for bad, worse, which could not start"
    assert (good.outcome, good.error) == ("not begun", error)
    failure = ("failed", "torchvision has no model 'resnet5'; did you mean resnet50?")
    assert [(worker.outcome, worker.error) for worker in (bad, worse)] == [failure] * 2
    assert not (tmp_path / "out/good/session.json").exists()


def test_a_killed_worker_is_recorded_with_its_last_lines_and_the_others_finish(tmp_path):
    workers = {"good": "complete", "bad": "die", "late": "killed"}
    good, bad, late = run(launch(tmp_path, workers)).workers
    assert good.outcome == "complete"
    assert (bad.outcome, bad.exit_code) == ("died", -9)
    assert bad.error == "killed (signal 9, SIGKILL) before its first record"
    assert bad.last_lines == ("step 1", "step 2")
    assert describe_exit(bad) == f"was {bad.error}"
    assert (late.outcome, late.figures.frames) == ("died", 7 * 16)
    folder = tmp_path / "out/late"
    assert late.error == f"killed (signal 9, SIGKILL) after 7 steps; its results are in {folder}"


def test_a_signal_is_named():
    assert "killed (signal 9, SIGKILL)" in killed_words(-9)
    assert "killed (signal 11, SIGSEGV)" in killed_words(-11)
    assert "(signal 60)" in killed_words(-60)


def test_an_interrupt_stops_all_workers_and_keeps_their_results(tmp_path):
    running = set()

    def interrupt(event):
        if event.frames == 4:
            running.add(event.worker)
            if len(running) == 2:
                raise KeyboardInterrupt

    workers = run(launch(tmp_path, {"a": "endless", "b": "endless"}, on_event=interrupt)).workers
    assert [worker.outcome for worker in workers] == ["interrupted"] * 2
    assert all(worker.figures.frames == 40 * 16 for worker in workers)


def test_an_earlier_session_in_the_folder_is_ignored(tmp_path):
    (tmp_path / "out/a").mkdir(parents=True)
    record(steps=5).save(tmp_path / "out/a/session.json")
    (worker,) = run(launch(tmp_path, {"a": "stray"})).workers
    assert (worker.outcome, worker.error) == ("died", "it ended without a session")
    assert worker.figures is None


def test_a_dry_run_starts_no_run(tmp_path):
    started = launch(tmp_path, {"good": "complete", "bad": "refuse"})
    good, bad = run(started, is_dry=True).workers
    assert (good.outcome, bad.outcome) == ("complete", "failed")
    assert not (tmp_path / "out/good/session.json").exists()


def test_nsys_is_refused_if_it_is_not_installed(tmp_path):
    environment = {"PATH": str(tmp_path)}
    profiled = launch(tmp_path, {"a": "complete"}, nsys=True, environment=environment)
    with pytest.raises(BackendError, match="a: nsys is requested but not installed"):
        profiled.check()


def test_a_worker_runs_under_nsys_if_it_is_installed(tmp_path):
    """A fake nsys records its arguments and runs the command after its options."""
    program = tmp_path / "nsys"
    program.write_text(
        '#!/bin/sh\necho "$@" > "$(dirname "$0")/arguments"\n'
        'while [ "$1" != "${1#--}" ] || [ "$1" = profile ]; do shift; done\nexec "$@" 9>&-\n'
    )
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    profiled = launch(tmp_path, {"a": "complete"}, nsys=True, environment=environment)
    (worker,) = run(profiled).workers
    assert worker.outcome == "complete"
    arguments = (tmp_path / "arguments").read_text()
    assert arguments.startswith("profile --trace=cuda,nvtx,osrt --force-overwrite=true --output=")
    assert f"{tmp_path}/out/a/nsys" in arguments


def test_a_folder_that_cannot_be_written_is_an_error_before_the_start(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(ConfigError, match="cannot write to the output folder"):
        launch(tmp_path, {"a": "complete"}).check()


@pytest.fixture
def monitor(tmp_path):
    clock = FakeClock()
    started = launch(tmp_path, dict.fromkeys("abc", "complete"), clock=clock)
    return launching.LaunchMonitor(started, Rendezvous(tmp_path, clock))


def ending(name, exit_code):
    return CompletedChild(name=name, exit_code=exit_code, has_timed_out=False, seconds=1, tail="")


def test_workers_that_cannot_start_are_named_in_the_order_of_the_configuration(monitor):
    monitor.on_exit(ending("c", 2))
    monitor.on_exit(ending("a", 2))
    assert monitor.broken == ("a", "c")


def test_the_launch_is_aborted_when_all_other_workers_are_ready(monitor, tmp_path):
    monitor.on_exit(ending("c", 2))
    monitor.poll()
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text('{"ready": 7}\n')
    with pytest.raises(launching.LaunchAborted):
        monitor.poll()


def test_a_worker_that_fails_after_the_start_does_not_abort_the_launch(monitor, tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_text('{"ready": 7}\n')
    monitor.poll()
    monitor.on_exit(ending("a", 2))
    assert monitor.broken == ()
