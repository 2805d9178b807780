"""`headrace launch`: its YAML file, errors in it, and its results."""

import csv
import json
import re
import sys
from pathlib import Path

import pytest

from headrace.cli.launch_file import RunVocabulary, read_config
from headrace.cli.run import run
from headrace.errors import ConfigError
from headrace.testing.synth import SynthClip, write_clip

STAND_IN = Path(__file__).parents[1] / "runs" / "launch" / "stand_in.py"
GOOD = """
out: results
defaults: {weights: none, batch-size: 8, video: true}
workers:
  cars:
    source: [a.mp4, b.mp4]
    model_name: resnet50
    no_video: true
  12:30:
    sources: 0
    batch_size: 010
    max_staleness: 200ms
    pace:
    wait_for_source: true
    nsys: yes
"""

BAD = """\
otu: x
defaults:
  max-steps: 0
workers:
  a:
    source: [a.mp4, b.mp4]
    model_nam: squeezenet1_1
    prep_level: mediun
    out: x
  a b:
    threads: [1, 2]
    source: {x: 1}
  c:
    wait_for_source: maybe
    nsys: maybe
    weights: a
    weights: b
  d: 5
"""


@pytest.fixture
def read(tmp_path):
    """Return a function: text of a launch file -> its configuration."""

    def read(text):
        file = tmp_path / "launch.yaml"
        file.write_text(text)
        return read_config(file, RunVocabulary(run))

    return read


def test_values_become_arguments_of_the_workers_as_typed(read):
    config = read(GOOD.replace("12:30", "night"))
    assert config.out == "results"
    cars, night = config.workers
    assert (cars.name, cars.nsys) == ("cars", False)
    assert cars.arguments == (
        *("a.mp4", "b.mp4", "--weights", "none", "--batch-size", "8"),
        *("--no-video", "--model-name", "resnet50"),
    )
    assert night.nsys
    assert night.arguments == (
        *("0", "--weights", "none", "--batch-size", "010", "--video"),
        *("--max-staleness", "200ms", "--wait-for-source"),
    )


def test_all_problems_of_a_file_are_reported_together_with_their_lines(holds, call, tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    code, out, err = call("launch", file, "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    holds("launch_problems.txt", err.replace(f"{tmp_path}/", ""))
    assert not (tmp_path / "out").exists()


def test_an_invalid_structure_is_refused(read):
    with pytest.raises(ConfigError, match="workers must be a mapping, got a list"):
        read("workers: [a]")
    with pytest.raises(ConfigError, match="such option"):
        read("workers: {a: {source: x, weights: !!python/object:os.system y, q: 1}}")


def test_every_option_of_a_run_is_a_key(read):
    vocabulary = RunVocabulary(run)
    known = {"source", "sources", "model_name", "no_video", "web_port", "mode", "labels", "epochs"}
    assert known <= set(vocabulary.keys)
    assert not {"out", "json", "dry_run"} & set(vocabulary.keys)
    assert vocabulary.arguments("no_video", False) == ("--video",)
    assert vocabulary.arguments("wait_for_source", False) == ()
    assert vocabulary.arguments("source", "-x.mp4") == ("./-x.mp4",)


def test_the_example_runs_unchanged_with_a_training_beside_it(call, printed, tmp_path):
    clip = write_clip(tmp_path / "clip", SynthClip(num_frames=6, size=(64, 96)))
    text = printed("launch", "--example").replace("seconds=4", "seconds=1")
    model = "model_name: squeezenet1_1, threads: 1, batch_size: 2, video: true"
    file, out = tmp_path / "launch.yaml", tmp_path / "out"
    file.write_text(f"{text}  learns: {{source: {clip}, mode: retrain, {model}}}\n")
    code, stdout, err = call("launch", file, "--out", out)
    assert code == 0, err
    assert "3 workers completed: " in stdout
    assert max(map(len, stdout.splitlines())) <= max(100, len(str(out)) + 24)
    assert err.splitlines()[-4] == "all workers are ready and start"
    rows = list(csv.DictReader((out / "workers.csv").read_text().splitlines()))
    ends = [(row["worker"], row["outcome"]) for row in rows]
    assert ends == [(name, "complete") for name in ("small", "large", "learns")]
    assert rows[2]["frames"] == "6"
    assert all(float(row["cpu_seconds"]) > 0 and int(row["peak_memory_bytes"]) for row in rows)
    record = json.loads((out / "launch.json").read_text())
    assert record["workers"][0]["command"][:2] == ["headrace", "run"]
    assert (out / "small/report.html").exists()
    assert (out / "learns" / "head.pt").is_file()
    assert "mobilenet_v3_large" in (out / "report.html").read_text()


def test_incomplete_workers_are_named(call, tmp_path, monkeypatch):
    """The workers are stand-ins: each records a run with lost frames."""
    program, file, out = tmp_path / "python", tmp_path / "launch.yaml", tmp_path / "out"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} partial "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    file.write_text("workers: {runs: {source: a.mp4}}")
    code, _, err = call("launch", file, "--out", out)
    assert (code, err.splitlines()[-1]) == (3, "headrace: incomplete results of runs")
    [row] = csv.DictReader((out / "workers.csv").read_text().splitlines())
    assert (row["worker"], row["outcome"], row["frames"]) == ("runs", "complete", "640")


def test_a_worker_that_cannot_start_is_named_and_nothing_is_written(call, tmp_path):
    file, out = tmp_path / "launch.yaml", tmp_path / "out"
    file.write_text("workers: {a: {source: nosuch.mp4, weights: none}}")
    code, stdout, err = call("launch", file, "--out", out, "--json")
    assert code == 1
    assert json.loads(stdout)["workers"][0]["outcome"] == "failed"
    assert "headrace: worker a failed: cannot open nosuch.mp4" in err
    assert not (out / "launch.json").exists()


def test_the_file_on_the_page_is_a_launch(read):
    page = (Path(__file__).parents[2] / "docs" / "guides" / "launch.md").read_text("utf-8")
    (text,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert [worker.name for worker in read(text).workers] == ["cars", "door"]
