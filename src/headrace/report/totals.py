"""Totals of a report: values with unit and explanation."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headrace.profiling.findings.utilization import is_parallel_sink
from headrace.profiling.metrics import STABILITY_SECONDS, Copies, Metrics, latency_start
from headrace.profiling.number_format import (
    TOO_SMALL,
    count,
    counted,
    decimal,
    gibibytes,
    megabytes,
    milliseconds,
    percent,
    ratio,
    seconds,
)
from headrace.profiling.run_records import Role, TrainingRecord
from headrace.profiling.session import Session
from headrace.report.session_tables import lost_words

_MIN_PART: Final = 0.02
"""Min share of the start-up for a part that is listed."""


@dataclass(frozen=True)
class Total:
    """One line of the totals."""

    label: str
    value: str
    """Value with its unit."""
    reading: str
    """Explanation, one phrase."""


def _live_totals(session: Session, metrics: Metrics) -> Iterator[Total]:
    """Yield the totals of a live session; none at full speed."""
    if session.pace == "full_speed":
        return
    yield from _item_totals(session)
    yield from _latency_totals(session, metrics)
    yield from _interruptions(session, metrics)


def count_drops(session: Session) -> Counter[str]:
    """Return `cause at stage` → dropped frames, without drops of parallel sinks."""
    drops: Counter[str] = Counter()
    for stage in session.stages:
        if not is_parallel_sink(stage, session):
            drops.update({f"{cause} at {stage.name}": n for cause, n in stage.dropped.items()})
    return drops


def _item_totals(session: Session) -> Iterator[Total]:
    items = session.items
    if items is None:
        return
    yield Total(
        "Arrived",
        counted(items.arrived, "frame"),
        f"= {count(items.delivered)} delivered + {count(items.dropped)} dropped + "
        f"{count(items.in_flight)} in flight",
    )
    drops = count_drops(session)
    yield Total(
        "Dropped",
        percent(items.dropped / items.arrived) if items.arrived else "0 %",
        ", ".join(f"{count(n)} {place}" for place, n in drops.most_common()) or "none",
    )
    for stage in session.stages:
        if is_parallel_sink(stage, session) and stage.dropped:
            lost = sum(stage.dropped.values())
            yield Total(
                "Lost by a sink",
                f"{count(lost)} of {count(stage.items + lost)}",
                ", ".join(f"{count(n)} {cause}" for cause, n in stage.dropped.items())
                + f" at {stage.name}",
            )


def _latency_totals(session: Session, metrics: Metrics) -> Iterator[Total]:
    if metrics.latency is not None:
        latency, oldest = metrics.latency.ms, metrics.latency.oldest_ms
        yield Total(
            "Latency",
            milliseconds(latency.p50),
            f"median from {latency_start(session)}, of {counted(latency.count, 'step')}; "
            f"p95 {milliseconds(latency.p95)}, p99 {milliseconds(latency.p99)}",
        )
        if oldest is not None:
            yield Total(
                "Oldest frame",
                milliseconds(oldest.p50),
                "median age of the oldest frame of a clip or batch; "
                f"p95 {milliseconds(oldest.p95)}",
            )
    if metrics.capture_ms is not None:
        capture = metrics.capture_ms
        clocks = "; below 0: the two clocks differ" if capture.minimum < 0 else ""
        yield Total(
            "Capture latency",
            milliseconds(capture.p50),
            f"median from capture by the sender's clock, of "
            f"{counted(capture.count, 'step')}; p95 {milliseconds(capture.p95)}{clocks}",
        )


def _interruptions(session: Session, metrics: Metrics) -> Iterator[Total]:
    kinds = Counter(event.kind for event in session.events)
    if metrics.stalls is not None:
        duration = f", {seconds(metrics.stalls.seconds)} in total" if metrics.stalls.count else ""
        yield Total(
            "Stalls",
            count(metrics.stalls.count),
            f"of 2 s or more without output{duration}; of sources: "
            f"{counted(kinds['stalled'], 'stall')}, {counted(kinds['reconnected'], 'reconnect')}",
        )


def totals(session: Session, metrics: Metrics) -> tuple[Total, ...]:
    """Return the totals of a run, most important first."""
    return (
        *training_totals(session),
        _frames(session),
        _wall_time(session, metrics),
        *_startup(session),
        *_throughput(session, metrics),
        *_live_totals(session, metrics),
        *_service(session, metrics),
        *_steadiness(session, metrics),
        *_decoding(session, metrics),
        *_copies(session),
        *_usage(session),
    )


def cost_ratio(session: Session, metrics: Metrics) -> Total | None:
    """Return the ratio L_dec : L_prep : L_inf; None without measured steps, or without a model, and
    for a training loop, whose loading is not split this way."""
    if session.loader is not None or metrics.cost is None:
        return None
    if metrics.cost.ratio is None or "model" not in metrics.cost.roles:
        return None
    cost = metrics.cost
    roles: tuple[Role, ...] = ("decode", "preprocess", "model")
    parts = " : ".join(decimal(cost.roles.get(role, 0.0)) for role in roles)
    return Total(
        "L_dec : L_prep : L_inf",
        ratio(metrics.cost.ratio),
        f"mean {parts} ms per step; the smallest is 1",
    )


def _frames(session: Session) -> Total:
    steps = session.steps
    delivered = sum(steps.frames)
    return Total(
        "Samples" if session.loader else "Frames",
        count(delivered),
        f"in {counted(len(steps), 'step')}{_of_videos(session)}",
    )


def _of_videos(session: Session) -> str:
    opened = [video for video in session.inputs if video.is_open]
    if not opened:
        return ""
    videos = "the video" if len(opened) == 1 else counted(len(opened), "video")
    return f", of {count(sum(video.frames for video in opened))} in {videos}"


def _wall_time(session: Session, metrics: Metrics) -> Total:
    warmup = min(session.warmup_steps, len(session.steps))
    reading = f"{seconds(metrics.startup_seconds)} of it until the first measured step"
    if warmup:
        reading = f"{seconds(metrics.startup_seconds)} of it warm-up, {counted(warmup, 'step')}"
    return Total("Run", seconds(session.wall_seconds), reading)


def _startup(session: Session) -> Iterator[Total]:
    if session.startup:
        total = sum(part.seconds for part in session.startup)
        listed = [part for part in session.startup if part.seconds >= _MIN_PART * total]
        parts = ", ".join(f"{part.name} {seconds(part.seconds)}" for part in listed)
        yield Total("Start-up", seconds(total), f"before the run: {parts}")


def _throughput(session: Session, metrics: Metrics) -> Iterator[Total]:
    if metrics.fps_mean is None:
        return
    reading = "after start-up"
    rates = {video.frame_rate for video in session.inputs if video.is_open}
    if session.kind == "extract":  # which may skip frames
        reading = "from the start of the first step to the last output"
    elif len(rates) == 1:
        factor = metrics.fps_mean / float(rates.pop()) * session.setup.stride
        reading += f"; {decimal(factor)} × playback speed"
    yield Total(
        "Throughput",
        f"{decimal(metrics.fps_mean)} {'samples' if session.loader else 'frames'}/s",
        reading,
    )


def _service(session: Session, metrics: Metrics) -> Iterator[Total]:
    if metrics.service_ms is None or session.kind == "extract":
        return
    service = metrics.service_ms
    work = "work per step, waits left out"
    if session.kind == "retrain":
        work = "time of a step, the wait for its batch included"
    elif session.loader is not None:
        work = "time to load a batch and to use it; waits for data left out, for a core included"
    yield Total(
        "Service time", milliseconds(service.p50), f"median {work}; p95 {milliseconds(service.p95)}"
    )


def _steadiness(session: Session, metrics: Metrics) -> Iterator[Total]:
    is_steady = session.kind != "extract" and session.loader is None
    if metrics.per_second is None or not is_steady:  # several workers, or a training loop
        return
    batch = max(session.steps.frames)
    note = f"; a step adds {batch} frames at once" if batch > 1 else ""
    length = counted(len(metrics.per_second.counts), "whole second")
    if metrics.fps_cv is not None:
        yield Total("FPS CV", decimal(metrics.fps_cv), f"below 0.05 is steady{note}")
    elif any(metrics.per_second.counts):
        yield Total("FPS CV", TOO_SMALL, f"{length}, {STABILITY_SECONDS} are needed")
    else:
        yield Total("FPS CV", "not defined", f"no frame in {length}")
    if metrics.jitter_ms is not None and metrics.interval_ms and metrics.interval_cv is not None:
        yield Total(
            "Latency jitter",
            milliseconds(metrics.jitter_ms),
            f"std between outputs, {percent(metrics.interval_cv)} of the mean "
            f"{milliseconds(metrics.interval_ms.mean)}",
        )


def _decoding(session: Session, metrics: Metrics) -> Iterator[Total]:
    decode = session.decode
    if metrics.amplification is not None:
        yield Total(
            "Decoded ÷ delivered",
            f"{metrics.amplification:.2f}",
            f"1 is ideal; {counted(decode.frames_decoded, 'frame')} decoded",
        )
    if decode.packets_read or decode.opens:
        yield Total(
            "Read",
            megabytes(decode.bytes_read),
            f"{counted(decode.packets_read, 'packet')}, {counted(decode.seeks, 'seek')}, "
            f"{counted(decode.opens, 'open')}",
        )
    concealed = [loss for loss in session.lost if loss.is_concealed]
    if len(concealed) < len(session.lost):
        missing = [loss for loss in session.lost if not loss.is_concealed]
        yield Total("Damaged", lost_words(session, missing), "requested and not decodable")
    if concealed:
        yield Total(
            "Concealed", lost_words(session, concealed), "damaged; kept as FFmpeg repairs them"
        )


def _copies(session: Session) -> Iterator[Total]:
    copies = Copies.of(session)
    if copies is not None:
        yield Total(
            "Copied",
            f"{megabytes(copies.h2d_bytes)} H2D, {megabytes(copies.d2h_bytes)} D2H",
            "per frame, between CPU and GPU; 0 is best",
        )


def _usage(session: Session) -> Iterator[Total]:
    if session.usage is None:
        return
    usage, wall = session.usage, session.wall_seconds
    cores = f", {decimal(usage.cpu_seconds / wall)} cores busy on average" if wall else ""
    yield Total("CPU time", seconds(usage.cpu_seconds), f"of this run{cores}")
    if usage.peak_memory_bytes is not None:
        gpu, process = "", "its process"
        if session.kind == "extract":
            process = "the command without its workers"
        if usage.peak_gpu_bytes is not None:
            gpu = f"; tensors on the GPU {gibibytes(usage.peak_gpu_bytes)}"
        yield Total(
            "Peak memory",
            gibibytes(usage.peak_memory_bytes),
            f"of {process}, imports and warm-up included{gpu}",
        )


def training_totals(session: Session) -> Iterator[Total]:
    """Yield the totals of a training; nothing for other kinds of session."""
    training = session.training
    if training is None:
        return
    losses = finite_losses(session)
    if losses:
        ends = max(1, len(losses) // 10)
        first, last = (sum(part) / ends for part in (losses[:ends], losses[-ends:]))
        yield Total(
            "Loss",
            f"{decimal(first)} → {decimal(last)}",
            f"mean of the first and the last {counted(ends, 'step')}; a random guess among "
            f"{len(training.classes)} classes has {decimal(math.log(len(training.classes)))}",
        )
    yield _accuracy(training)
    yield Total(
        "Trained",
        counted(training.trained_parameters, "parameter"),
        f"of {count(session.setup.parameters or training.trained_parameters)}, on "
        f"{_trained_frames(session, training)} of {counted(training.videos, 'video')}",
    )


def _trained_frames(session: Session, training: TrainingRecord) -> str:
    """`9 frames`, or `4 of 9 frames` if the training ended before the end of an epoch."""
    trained = sum(session.steps.frames)
    all_frames = counted(training.frames, "frame")
    return all_frames if trained >= training.frames else f"{count(trained)} of {all_frames}"


def _accuracy(training: TrainingRecord) -> Total:
    accuracy = training.accuracy
    if accuracy is None:
        reason = training.not_measured or "reason not recorded"
        return Total("Accuracy", "not measured", reason)
    return Total(
        "Accuracy",
        percent(accuracy.right / accuracy.frames),
        f"on {counted(accuracy.frames, 'frame')} of "
        f"{counted(training.held_out_videos, 'held-out video')}; always predicting the most "
        f"frequent class has {percent(accuracy.most_frequent / accuracy.frames)}",
    )


def finite_losses(session: Session) -> list[float]:
    """Return the finite losses of the steps."""
    return [loss for loss in session.steps.loss if loss is not None and math.isfinite(loss)]
