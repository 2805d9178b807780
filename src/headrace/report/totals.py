"""The totals every report shows: each a value with its unit and how to read it."""

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.profiling.metrics import STABILITY_SECONDS, Metrics
from headrace.profiling.session import Session
from headrace.report.numbers import (
    TOO_SMALL,
    count,
    counted,
    decimal,
    megabytes,
    milliseconds,
    percent,
    ratio,
    seconds,
)


@dataclass(frozen=True, kw_only=True)
class Total:
    """One line of the totals."""

    label: str
    value: str
    """With its unit."""
    reading: str
    """How to read it, one phrase."""


def totals(session: Session, metrics: Metrics) -> tuple[Total, ...]:
    """The figures of the whole run, the most asked for first."""
    return (
        _frames(session),
        _wall_time(session, metrics),
        *_throughput(session, metrics),
        *_service(metrics),
        *_steadiness(session, metrics),
        *_decoding(session, metrics),
    )


def cost_ratio(metrics: Metrics) -> Total | None:
    """L_dec : L_prep : L_inf; None when no step was measured."""
    if metrics.cost is None or metrics.cost.ratio is None:
        return None
    cost = metrics.cost
    parts = " : ".join(decimal(part) for part in (cost.read_ms, cost.prep_ms, cost.exec_ms))
    return Total(
        label="L_dec : L_prep : L_inf",
        value=ratio(metrics.cost.ratio),
        reading=f"mean {parts} ms per step; the smallest is 1",
    )


def _frames(session: Session) -> Total:
    steps = session.steps
    delivered = sum(steps.frames)
    return Total(
        label="Frames",
        value=count(delivered),
        reading=f"in {counted(len(steps), 'step')}, of {count(session.source.frames)} in the video",
    )


def _wall_time(session: Session, metrics: Metrics) -> Total:
    warmup = min(session.warmup_steps, len(session.steps))
    spent = f"{seconds(metrics.startup_seconds)} of it start-up"
    return Total(
        label="Wall time",
        value=seconds(session.wall_seconds),
        reading=f"{spent}, {counted(warmup, 'warm-up step')} included" if warmup else spent,
    )


def _throughput(session: Session, metrics: Metrics) -> Iterator[Total]:
    if metrics.fps_mean is None:
        return
    speed = metrics.fps_mean / float(session.source.frame_rate)
    stride = session.provenance.configuration.get("stride")
    if isinstance(stride, int):
        speed *= stride
    yield Total(
        label="Throughput",
        value=f"{decimal(metrics.fps_mean)} frames/s",
        reading=f"after start-up; {decimal(speed)} × the speed the video plays at",
    )


def _service(metrics: Metrics) -> Iterator[Total]:
    if metrics.service_ms is None:
        return
    service = metrics.service_ms
    yield Total(
        label="Service time",
        value=milliseconds(service.p50),
        reading=f"median work per step, waits left out; p95 {milliseconds(service.p95)}",
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
    yield Total(
        label="Read",
        value=megabytes(decode.bytes_read),
        reading=f"{counted(decode.packets_read, 'packet')}, {counted(decode.seeks, 'seek')}, "
        f"{counted(decode.opens, 'open')}",
    )
    if session.damaged:
        yield Total(
            label="Damaged",
            value=counted(len(session.damaged), "frame"),
            reading="asked for and not decodable",
        )
