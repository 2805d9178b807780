"""Workers begin together or not at all, end each for itself, and leave one record."""

import os
import sys
from pathlib import Path

import pytest

from headrace.errors import BackendError, ConfigError
from headrace.profiling.session import NOT_ALL
from headrace.runs.launch import launching
from headrace.runs.launch.launch_record import describe_exit, killed_words
from headrace.runtime.child_spec import CompletedChild
from headrace.runtime.rank_processes import Rendezvous
from headrace.testing.fake_clock import FakeClock
from report.recorded import record
from runtime.in_time import in_time

STAND_IN = (sys.executable, str(Path(__file__).parent / "stand_in.py"))


def launch(tmp_path, workers, *, nsys=False, **given):
    """Return a launch of stand-ins: name -> what it does; `given` are other fields."""
    made = [
        launching.WorkerConfig(name=name, arguments=(what,), nsys=nsys)
        for name, what in workers.items()
    ]
    plain = {"program": STAND_IN, "environment": dict(os.environ)}
    plain["command"] = ("headrace", "launch", "launch.yaml")
    config = launching.LaunchConfig(workers=tuple(made))
    return launching.Launch(config=config, out=tmp_path / "out", **{**plain, **given})


def ran(made, **options):
    made.check()
    return in_time(lambda: made.run(**options))


def test_workers_begin_together_and_leave_one_record(tmp_path):
    news = []
    workers = {"cars": "complete", "people": "partial"}
    found = ran(launch(tmp_path, workers, on_event=news.append))
    ends = [(each.name, each.outcome, each.exit_code) for each in found.workers]
    assert ends == [("cars", "complete", 0), ("people", "complete", NOT_ALL)]
    first = found.workers[0]
    assert first.command == ("headrace", "run", "complete", "--out", str(tmp_path / "out/cars"))
    assert first.figures.frames == 40 * 16
    assert first.figures.finding.startswith("Bound by the model")
    assert first.figures.others_cpu_share == 0.44
    assert found.others_cpu_share is None or 0 <= found.others_cpu_share <= 1
    assert first.figures.work_ms["model"] == pytest.approx(230 / 16, rel=0.1)
    assert found.start_spread_ms >= 0
    assert found.together_seconds == pytest.approx(first.figures.wall_seconds, abs=1)
    states = [each.state for each in news]
    assert set(states[:2]) == {"ready"}, "none runs before all are ready"
    assert {(each.worker, each.frames) for each in news} >= {("cars", 3), ("people", 3)}


def test_no_password_stands_in_the_list_of_processes_or_in_the_record(tmp_path):
    """A stand-in whose whole command line is what it prints."""
    shows = (sys.executable, "-c", "import sys; print(open(sys.argv[1]).read(), sys.argv)")
    made = launch(tmp_path, {"cam": "rtsp://bob:p@ss/w@host/cam"}, program=shows)
    (found,) = ran(made).workers
    given, listed = found.last_lines
    assert given == "rtsp://bob:p@ss/w@host/cam"
    assert "cam-0.streams" in listed
    assert "ss/w" not in listed + found.model_dump_json(exclude={"last_lines"})
    assert found.command[2] == "rtsp://***@host/cam"


def test_where_one_cannot_begin_none_does_and_all_that_is_wrong_is_told(tmp_path):
    found = ran(launch(tmp_path, {"good": "complete", "bad": "refuse", "worse": "refuse"}))
    good, bad, worse = found.workers
    waited = "it waited for bad, worse, which could not start"
    assert (good.outcome, good.error) == ("not begun", waited)
    told = ("failed", "torchvision has no model 'resnet5'; did you mean resnet50?")
    assert [(each.outcome, each.error) for each in (bad, worse)] == [told] * 2
    assert not (tmp_path / "out/good/session.json").exists()


def test_one_that_dies_is_named_with_its_last_lines_and_its_record_and_the_other_finishes(tmp_path):
    workers = {"good": "complete", "bad": "die", "late": "killed"}
    good, bad, late = ran(launch(tmp_path, workers)).workers
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


def test_an_interrupt_stops_all_and_each_keeps_what_it_did(tmp_path):
    running = set()

    def interrupt(news):
        if news.frames == 4:
            running.add(news.worker)
            if len(running) == 2:
                raise KeyboardInterrupt

    found = ran(launch(tmp_path, {"a": "endless", "b": "endless"}, on_event=interrupt))
    assert [each.outcome for each in found.workers] == ["interrupted"] * 2
    assert all(each.figures.frames == 40 * 16 for each in found.workers)


def test_an_earlier_session_in_the_folder_is_not_taken_for_this_one(tmp_path):
    (tmp_path / "out/a").mkdir(parents=True)
    record(steps=5).save(tmp_path / "out/a/session.json")
    (found,) = ran(launch(tmp_path, {"a": "stray"})).workers
    assert (found.outcome, found.error) == ("died", "it ended without a session")
    assert found.figures is None


def test_a_dry_run_begins_nothing(tmp_path):
    made = launch(tmp_path, {"good": "complete", "bad": "refuse"})
    good, bad = ran(made, is_dry=True).workers
    assert (good.outcome, bad.outcome) == ("complete", "failed")
    assert not (tmp_path / "out/good/session.json").exists()


def test_nsys_is_refused_where_it_is_not_installed(tmp_path):
    environment = {"PATH": str(tmp_path)}
    bare = launch(tmp_path, {"a": "complete"}, nsys=True, environment=environment)
    with pytest.raises(BackendError, match="a: nsys is given and not installed"):
        bare.check()


def test_a_worker_runs_under_nsys_where_it_is_installed(tmp_path):
    """A program of this name that does what nsys does: it runs what stands behind its options."""
    program = tmp_path / "nsys"
    program.write_text(
        '#!/bin/sh\necho "$@" > "$(dirname "$0")/asked"\n'
        'while [ "$1" != "${1#--}" ] || [ "$1" = profile ]; do shift; done\nexec "$@" 9>&-\n'
    )
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    under = launch(tmp_path, {"a": "complete"}, nsys=True, environment=environment)
    (found,) = ran(under).workers
    assert found.outcome == "complete"
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith("profile --trace=cuda,nvtx,osrt --force-overwrite=true --output=")
    assert f"{tmp_path}/out/a/nsys" in asked


def test_a_folder_that_cannot_be_written_is_said_before_anything_starts(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(ConfigError, match="cannot write to the output folder"):
        launch(tmp_path, {"a": "complete"}).check()


@pytest.fixture
def watch(tmp_path):
    clock = FakeClock()
    made = launch(tmp_path, dict.fromkeys("abc", "complete"), clock=clock)
    return launching.LaunchMonitor(made, Rendezvous(tmp_path, clock))


def ending(name, exit_code):
    return CompletedChild(name=name, exit_code=exit_code, has_timed_out=False, seconds=1, tail="")


def test_those_that_cannot_begin_are_named_in_their_order_whoever_ended_first(watch):
    watch.on_exit(ending("c", 2))
    watch.on_exit(ending("a", 2))
    assert watch.broken == ("a", "c")


def test_the_rest_is_called_off_once_all_are_heard_of(watch, tmp_path):
    watch.on_exit(ending("c", 2))
    watch.poll()
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text('{"ready": 7}\n')
    with pytest.raises(launching.LaunchAborted):
        watch.poll()


def test_one_that_ends_after_the_start_breaks_nothing(watch, tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_text('{"ready": 7}\n')
    watch.poll()
    watch.on_exit(ending("a", 2))
    assert watch.broken == ()
