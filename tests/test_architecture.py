"""The source follows the architecture rules, and each rule can fail."""

import re

import pytest

from house_rules import LAYERS, ROOT, RULES, Module, cycle, folders, house, owners


@pytest.mark.parametrize("rule", RULES)
def test_the_source_follows_the_rule(rule: str) -> None:
    problems = [
        f"src/headrace/{module.path}:{line}: {rule}: {what}"
        for module in house()
        for line, what in RULES[rule](module)
    ]
    assert not problems, "\n" + "\n".join(problems)


def test_the_source_has_no_import_cycle() -> None:
    modules = house()
    assert len(modules) > 1
    assert cycle(modules) == []


def test_the_design_page_lists_the_layers_in_their_order() -> None:
    page = (ROOT / "docs" / "design.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)(?:/|\.py)` ", page, re.MULTILINE)
    standing = {module.layer for module in house()}
    assert listed == [layer for layer in [*LAYERS, "testing"] if layer in standing]


DOC = '"""A module."""\n'
BROKEN = [
    ("layers", "video/a.py", "from headrace.decode.open_decoder import Pool"),
    ("layers", "errors.py", "import headrace.video.source"),
    ("layers", "report/a.py", "def f():\n    from headrace.cli import run"),
    ("layers", "cli/a.py", "from headrace.testing.synth import write"),
    ("layers", "__init__.py", "from headrace.testing.synth import write"),
    ("layers", "plugins/a.py", ""),
    ("root", "cli/a.py", "import headrace"),
    ("root", "cli/a.py", "from headrace import read_clip"),
    ("root", "video/a.py", "from . import source"),
    ("root", "video/a.py", "from .source import Source"),
    ("owners", "decode/a.py", "import threading"),
    ("owners", "live/a.py", "from concurrent.futures import ThreadPoolExecutor"),
    ("owners", "live/a.py", "from concurrent import futures"),
    ("owners", "models/a.py", "import torch\ntorch.multiprocessing.spawn"),
    ("owners", "extraction/a.py", "import ray.data"),
    ("owners", "video/source.py", "import av"),
    ("owners", "video/source.py", "from av.container import InputContainer"),
    ("owners", "runtime/queue.py", "import time"),
    ("owners", "report/a.py", "from time import monotonic as now"),
    ("owners", "report/a.py", "from datetime import datetime\ndatetime.now()"),
    ("owners", "planning.py", "import random"),
    ("owners", "planning.py", "import numpy as np\nnp.random.default_rng(0)"),
    ("owners", "models/a.py", "import torch\nx = torch.randn(3)"),
    ("owners", "models/a.py", "from torch import randperm"),
    ("owners", "report/a.py", "print('done')"),
    ("owners", "decode/a.py", "import os\nos.pread(file, 1, 0)"),
    ("owners", "extraction/a.py", "from fcntl import flock"),
    ("owners", "bench/a.py", "import signal\nKILLED = -signal.SIGKILL"),
    ("owners", "decode/a.py", "import os\nos.environ['HOME']"),
    ("owners", "decode/a.py", "from os import getenv"),
    ("blindness", "runtime/a.py", "from headrace.video.source import Source"),
    ("blindness", "report/a.py", "from headrace.runtime.clock import SYSTEM_CLOCK"),
    ("safety", "cache/a.py", "import pickle"),
    ("safety", "cli/a.py", "import yaml\nyaml.load(text)"),
    ("safety", "models/a.py", "import torch\ntorch.load(path)"),
    ("safety", "models/a.py", "import torch\ntorch.load(path, weights_only=False)"),
    ("safety", "models/a.py", "from torch import load\nload(path)"),
    ("safety", "cli/a.py", "import subprocess\nsubprocess.run(line, shell=True)"),
    ("safety", "cli/a.py", "import os\nos.system(line)"),
    ("safety", "cli/a.py", "eval(text)"),
    ("safety", "cli/a.py", "run = exec"),
    ("names", "video/utils.py", ""),
    ("names", "video/io_helpers.py", ""),
    ("names", "core/a.py", ""),
    ("names", "decode/base_decoder.py", ""),
    ("names", "cache/manager.py", ""),
    ("sizes", "video/a.py", "\n" * 400),
    ("sizes", "video/a.py", "def f():\n" + "    pass\n" * 60),
    ("folders", "video/__init__.py", "from headrace.video.source import Source"),
]
KEPT = [
    ("layers", "decode/a.py", "from headrace.video.a import A\nfrom headrace.decode.b import B"),
    ("layers", "__init__.py", "def f():\n    from headrace.cli import main"),
    ("layers", "testing/a.py", "from headrace.cli import main"),
    ("layers", "cli/demo.py", "from headrace.testing.demo import draw_demo"),
    ("root", "video/a.py", "from headrace.errors import OpenError\nimport headrace.errors"),
    ("owners", "runtime/a.py", "import threading\nfrom queue import Queue"),
    ("owners", "runtime/a.py", "import sys\nsys.platform"),
    ("owners", "cli/a.py", "import signal\nsignal.signal(signal.SIGTERM, stop)"),
    ("owners", "extraction/ray/a.py", "import ray.data"),
    ("owners", "extraction/a.py", "from headrace.extraction.ray.backend import RayBackend"),
    ("owners", "decode/pyav.py", "import av"),
    ("owners", "runtime/clock.py", "import time\ntime.perf_counter_ns()"),
    ("owners", "live/a.py", "from headrace.runtime.queue import BoundedQueue"),
    ("owners", "live/a.py", "def f(queue, time):\n    return queue.get(time.value)"),
    ("owners", "models/a.py", "import torch\ntorch.zeros(3)"),
    ("owners", "sampling/a.py", "import numpy\nnumpy.random.default_rng(0)"),
    ("owners", "cli/a.py", "import os\nprint(os.environ)"),
    ("blindness", "runtime/a.py", "from headrace.errors import StageError"),
    ("safety", "models/a.py", "import torch\ntorch.load(path, weights_only=True)"),
    ("safety", "models/a.py", "import json\nmodel.eval()\njson.load(file)"),
    ("safety", "cli/a.py", "import subprocess\nsubprocess.run([line], shell=False)"),
    ("names", "video/timebase.py", ""),
    ("sizes", "video/a.py", "\n" * 398 + "def f(): ..."),
    ("sizes", "video/a.py", "def f():\n" + "    pass\n" * 59),
    ("folders", "video/__init__.py", ""),
    ("folders", "cli/__init__.py", "from headrace.cli.app import main"),
]


@pytest.mark.parametrize(("rule", "path", "text"), [*BROKEN, *KEPT])
def test_a_rule_finds_problems_and_accepts_correct_code(rule, path, text) -> None:
    found = list(RULES[rule](Module(path, DOC + text)))
    assert bool(found) == ((rule, path, text) in BROKEN)


def test_a_file_without_a_docstring_is_found() -> None:
    assert list(folders(Module("video/a.py", "import os"))) != []


def test_every_rule_has_both_cases() -> None:
    assert {case[0] for case in BROKEN} == {case[0] for case in KEPT} == set(RULES)


def test_a_problem_names_its_line() -> None:
    module = Module("decode/a.py", DOC + "\n\nimport threading")
    assert [line for line, _ in owners(module)] == [4]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"a": "import json", "b": "from headrace.video.a import A"}, set()),
        (
            {"a": "from headrace.video.b import B", "b": "from headrace.video import a"},
            {"headrace.video.a", "headrace.video.b"},
        ),
        ({"a": "def f():\n    import headrace.video.a"}, {"headrace.video.a"}),
    ],
)
def test_an_import_cycle_is_found(texts: dict[str, str], expected: set[str]) -> None:
    assert (
        set(cycle([Module(f"video/{name}.py", text) for name, text in texts.items()])) == expected
    )
