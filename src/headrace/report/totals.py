"""The totals every report shows: each a value with its unit and how to read it."""

from collections.abc import Iterator
from typing import Final

from headrace.profiling.metrics import STABILITY_SECONDS, Copies, Metrics
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
from headrace.profiling.session import Session
from headrace.profiling.stage_records import Role
from headrace.report.live_totals import live_totals
from headrace.report.losses import lost_words
from headrace.report.total import Total
from headrace.report.training import training_totals

_FELT: Final = 0.02
"""Of the start-up, below which a part of it is not worth a word."""


def totals(session: Session, metrics: Metrics) -> tuple[Total, ...]:
    """The figures of the whole run, the most asked for first."""
    return (
        *training_totals(session),
        _frames(session),
        _wall_time(session, metrics),
        *_startup(session),
        *_throughput(session, metrics),
        *live_totals(session, metrics),
        *_service(session, metrics),
        *_steadiness(session, metrics),
        *_decoding(session, metrics),
        *_copies(session),
        *_usage(session),
    )


def cost_ratio(metrics: Metrics) -> Total | None:
    """L_dec : L_prep : L_inf; None when no step was measured, or no model ran."""
    if metrics.cost is None or metrics.cost.ratio is None or "model" not in metrics.cost.roles:
        return None
    cost = metrics.cost
    roles: tuple[Role, ...] = ("decode", "preprocess", "model")
    parts = " : ".join(decimal(cost.roles.get(role, 0.0)) for role in roles)
    return Total(
        label="L_dec : L_prep : L_inf",
        value=ratio(metrics.cost.ratio),
        reading=f"mean {parts} ms per step; the smallest is 1",
    )


def _frames(session: Session) -> Total:
    steps = session.steps
    delivered = sum(steps.frames)
    return Total(
        label="Samples" if session.loader else "Frames",
        value=count(delivered),
        reading=f"in {counted(len(steps), 'step')}{_of_all(session)}",
    )


def _of_all(session: Session) -> str:
    opened = [video for video in session.inputs if video.is_open]
    if not opened:
        return ""
    videos = "the video" if len(opened) == 1 else counted(len(opened), "video")
    return f", of {count(sum(video.frames for video in opened))} in {videos}"


def _wall_time(session: Session, metrics: Metrics) -> Total:
    warmup = min(session.warmup_steps, len(session.steps))
    spent = f"{seconds(metrics.startup_seconds)} of it until the first measured step"
    if warmup:
        spent = f"{seconds(metrics.startup_seconds)} of it to warm up, {counted(warmup, 'step')}"
    return Total(label="Run", value=seconds(session.wall_seconds), reading=spent)


def _startup(session: Session) -> Iterator[Total]:
    if session.startup:
        whole = sum(part.seconds for part in session.startup)
        felt = [part for part in session.startup if part.seconds >= _FELT * whole]
        parts = ", ".join(f"{part.name} {seconds(part.seconds)}" for part in felt)
        yield Total(label="Start-up", value=seconds(whole), reading=f"before the run: {parts}")


def _throughput(session: Session, metrics: Metrics) -> Iterator[Total]:
    if metrics.fps_mean is None:
        return
    played = ""
    rates = {video.frame_rate for video in session.inputs if video.is_open}
    if len(rates) == 1 and session.kind != "extract":  # which leaves frames out by any rule
        speed = metrics.fps_mean / float(rates.pop()) * session.setup.stride
        played = f"; {decimal(speed)} × the speed the video plays at"
    yield Total(
        label="Throughput",
        value=f"{decimal(metrics.fps_mean)} {'samples' if session.loader else 'frames'}/s",
        reading=f"after start-up{played}",
    )


def _service(session: Session, metrics: Metrics) -> Iterator[Total]:
    if metrics.service_ms is None:
        return
    service = metrics.service_ms
    what = "work per step, waits left out"
    if session.kind == "retrain":
        what = "time of a step, the wait for its batch among it"
    yield Total(
        label="Service time",
        value=milliseconds(service.p50),
        reading=f"median {what}; p95 {milliseconds(service.p95)}",
    )


def _steadiness(session: Session, metrics: Metrics) -> Iterator[Total]:
    if metrics.per_second is None:
        return
    batch = max(session.steps.frames)
    lumps = f"; a step adds {batch} frames at once" if batch > 1 else ""
    whole = len(metrics.per_second.counts)
    yield Total(
        label="FPS CV",
        value=TOO_SMALL if metrics.fps_cv is None else decimal(metrics.fps_cv),
        reading=f"below 0.05 is steady{lumps}"
        if metrics.fps_cv is not None
        else f"{counted(whole, 'whole second')}, {STABILITY_SECONDS} are needed",
    )
    if metrics.jitter_ms is not None and metrics.interval_ms and metrics.interval_cv is not None:
        yield Total(
            label="Latency jitter",
            value=milliseconds(metrics.jitter_ms),
            reading=f"std between outputs, {percent(metrics.interval_cv)} of the mean "
            f"{milliseconds(metrics.interval_ms.mean)}",
        )


def _decoding(session: Session, metrics: Metrics) -> Iterator[Total]:
    decode = session.decode
    if metrics.amplification is not None:
        yield Total(
            label="Decoded ÷ delivered",
            value=f"{metrics.amplification:.2f}",
            reading=f"1 is ideal; {counted(decode.frames_decoded, 'frame')} decoded",
        )
    if decode.packets_read or decode.opens:
        yield Total(
            label="Read",
            value=megabytes(decode.bytes_read),
            reading=f"{counted(decode.packets_read, 'packet')}, {counted(decode.seeks, 'seek')}, "
            f"{counted(decode.opens, 'open')}",
        )
    if session.lost:
        yield Total(
            label="Damaged",
            value=lost_words(session),
            reading="asked for and not decodable",
        )


def _copies(session: Session) -> Iterator[Total]:
    copies = Copies.of(session)
    if copies is not None:
        yield Total(
            label="Copied",
            value=f"{megabytes(copies.up_bytes)} up, {megabytes(copies.down_bytes)} down",
            reading="a frame, between CPU and GPU; none is best",
        )


def _usage(session: Session) -> Iterator[Total]:
    if session.usage is None:
        return
    used, wall = session.usage, session.wall_seconds
    cores = f"{decimal(used.cpu_seconds / wall)} cores busy on average" if wall else "in no time"
    yield Total(label="CPU time", value=seconds(used.cpu_seconds), reading=f"of this run, {cores}")
    if used.peak_memory_bytes is not None:
        gpu = ""
        if used.peak_gpu_bytes is not None:
            gpu = f"; tensors on the GPU {gibibytes(used.peak_gpu_bytes)}"
        yield Total(
            label="Peak memory",
            value=gibibytes(used.peak_memory_bytes),
            reading=f"of its process, imports and warm-up included{gpu}",
        )
