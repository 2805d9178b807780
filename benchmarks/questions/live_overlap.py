"""How long do decoding, preprocessing and model take: one after another, and each in a thread?"""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.live.net import Net
from benchmarks.live.source import OneThread
from benchmarks.resources import Meter
from headrace.live.overload import Overload
from headrace.runs.live.engine import answers_of
from headrace.runs.live.flow import LiveFlow, LivePlan
from headrace.runtime.waiter import Waiter

_WAITED_SECONDS = 0.015


def answer(
    *, clip: str, threads: int, waits: bool, frames: int, proved: int, repeats: int
) -> dict[str, Any]:
    """Prove that both ways give the same answers, then time them in turn.

    Args:
        clip: A video, decoded by one thread as fast as it goes.
        threads: Of one operation of PyTorch.
        waits: The model computes nothing and waits, as for another device.
        frames: Timed in each repeat.
        proved: Frames whose answers are compared.
        repeats: Of each way.
    """
    net = Net(threads=threads, at_least=_WAITED_SECONDS if waits else 0.0, waits=waits)
    source = OneThread(Path(clip))
    if _sequential(source, net, proved)["answers"] != _threaded(source, net, proved)["answers"]:
        raise ValueError("threads gave other answers than one thread")
    total, pairs = Meter(), []
    for _ in range(repeats):
        meter = Meter()
        plain = _sequential(source, net, frames)
        plain["cpu_seconds"] = meter.read()["cpu_seconds"]
        pairs.append((plain, _threaded(source, net, frames)))
    for found in (each for pair in pairs for each in pair):
        del found["answers"]
    return {"pairs": pairs, "meter": total.read()}


def _sequential(source: OneThread, net: Net, count: int) -> dict[str, Any]:
    spent = {"decode": 0.0, "preprocess": 0.0, "model": 0.0}
    answers = []
    began = perf_counter()
    with closing(source.frames(0, Waiter())) as frames:
        for _ in range(count):
            frame = _timed("decode", spent, partial(next, frames))
            pixels = np.stack([frame.pixels])
            batch = _timed("preprocess", spent, partial(net.prepare, pixels))
            output = _timed("model", spent, partial(net.run, batch))
            answers.append((frame.number, _plain(answers_of(output, 1)[0])))
        seconds = perf_counter() - began
    return {"seconds": seconds, "stage_ms": _each(spent, count), "answers": answers}


def _threaded(source: OneThread, net: Net, count: int) -> dict[str, Any]:
    overload = Overload.chosen("every-frame", is_live=False)
    plan = LivePlan(sources=[source], engine=net.engine(), overload=overload)
    spent = {"decode": 0.0, "preprocess": 0.0, "model": 0.0}
    answers = []
    began = perf_counter()
    with LiveFlow(plan) as flow:
        for item in islice(flow, count):
            [view] = item.value.gathered.views
            answers.append((view[-1].number, _plain(item.value.outputs[0])))
            for span in item.spans:
                if span.stage in spent:
                    spent[span.stage] += span.work_ns / 1e9
        seconds = perf_counter() - began
    return {"seconds": seconds, "stage_ms": _each(spent, count), "answers": answers}


def _timed(stage: str, spent: dict[str, float], work: Callable[[], Any]) -> Any:
    began = perf_counter()
    found = work()
    spent[stage] += perf_counter() - began
    return found


def _each(spent: dict[str, float], count: int) -> dict[str, float]:
    return {stage: 1e3 * seconds / count for stage, seconds in spent.items()}


def _plain(output: Any) -> str:
    names = getattr(output, "names", None)
    return repr(output) if names is None else repr((names[0], output.confidence[0]))
