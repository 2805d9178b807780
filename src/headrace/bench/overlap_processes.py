"""The stages of `bench overlap` in processes; frames and tensors stay in the memory they share."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.bench.overlap_decoding import SharedFrame, decoding
from headrace.bench.overlap_work import ready_work
from headrace.models.threads import operation_threads
from headrace.preprocess.levels import build_preprocess
from headrace.preprocess.spec import InputSpec, PrepLevel
from headrace.runs.options import ComputeOptions
from headrace.runtime.clock import SYSTEM_CLOCK
from headrace.runtime.process_stage import ProcessStage
from headrace.video.stream_index import StreamIndex


def stages_of(
    indexes: Sequence[StreamIndex], compute: ComputeOptions, spec: InputSpec
) -> list[ProcessStage]:
    """Return what runs in a process each; the model's one also takes batches to its device."""
    return [
        ProcessStage(name="decode", make=decoding, argument=tuple(indexes)),
        ProcessStage(
            name="preprocess", make=_preparing, argument=(compute.prep_level, spec, compute.threads)
        ),
        ProcessStage(name="model", make=_inferring, argument=compute),
    ]


@contextmanager
def _preparing(argument: tuple[PrepLevel, InputSpec, int | None]) -> Iterator[Any]:
    prep_level, spec, threads = argument
    preprocess = build_preprocess(prep_level, spec)

    def work(memory: memoryview, frame: SharedFrame) -> SharedFrame:
        tensor = preprocess(frame.pixels(memory)[None])
        frame = replace(frame, tensor_shape=tuple(tensor.shape))
        frame.tensor(memory).copy_(tensor)
        return frame

    with operation_threads(threads):
        preprocess(np.zeros((1, 64, 64, 3), np.uint8))
        yield work


@contextmanager
def _inferring(compute: ComputeOptions) -> Iterator[Any]:
    with operation_threads(compute.threads):
        ready, _ = ready_work(compute, SYSTEM_CLOCK)

        def work(memory: memoryview, frame: SharedFrame) -> SharedFrame:
            tensor = frame.tensor(memory)
            if ready.carrier is not None:
                tensor = ready.carrier.carry(tensor)
            return replace(frame, labels=ready.infer(tensor))

        yield work
