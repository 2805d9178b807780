"""What proxies came to, in words: how large they are, what was lost, what was won."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.decode.proxy_rows import ProxyRow
    from headrace.extraction.plan import Extracted
    from headrace.extraction.proxies.proxy_extraction import ProxyEstimate, ProxyMaking
    from headrace.extraction.proxies.totals import ProxyTotals
    from headrace.planner.proxy_gain import ProxyGain

_BUSY: Final = 0.2
"""Cores, from which on figures are not those of a machine at rest."""


def what_came(extracted: "Extracted", made: "ProxyMaking", *, measures: bool) -> list[str]:
    """Return what the proxies lost and won, in lines; and record it in their folder.

    Args:
        extracted: What the run came to.
        made: What it was.
        measures: Whether to time originals and proxies, some 5 s.

    Raises:
        ConfigError: the record cannot be written.
    """
    from headrace.decode.proxy_rows import read_rows
    from headrace.extraction.proxies.totals import ProxyTotals
    from headrace.planner.proxy_gain import RECORD, write_record

    if extracted.session.outcome != "complete":
        return []
    # Without a record, what made the last of them was ended before it told what they came to.
    is_told = (made.options.out / RECORD).exists() and extracted.came == extracted.were_there
    rows = [] if is_told else list(read_rows(made.options.out))
    totals = ProxyTotals.of(rows)
    if totals is None:
        return []
    gain = _gain(made, rows) if measures else None
    write_record(made.options.out, totals, gain)
    return [*_lost_words(totals), *(_gain_words(gain) if gain else ())]


def forecast_words(found: "ProxyEstimate", out: Path) -> str:
    """Return what a dry run says."""
    from headrace.profiling.number_format import counted, megabytes, percent, seconds

    what = f"{counted(found.frames, 'frame')} of {counted(found.videos, 'video')}"
    if found.num_bytes is None or found.seconds is None:
        why = "no sample could be decoded, so size and time are unknown"
        return f"Dry run: proxies of {what} would go to {out}; {why}"
    return (
        f"Dry run: proxies of {what} would go to {out}\n"
        f"Size: about {megabytes(found.num_bytes)}, "
        f"{percent(found.num_bytes / found.original_bytes)} of the originals, estimated from "
        f"{counted(found.samples, 'frame')}\n"
        f"Time: about {seconds(found.seconds)} on {counted(found.workers, 'worker')}, "
        "by what these took"
    )


def _gain(made: "ProxyMaking", rows: "list[ProxyRow]") -> "ProxyGain | None":
    """Return what is won; None where there is too little to tell, or somebody will not wait."""
    from headrace.decode.proxies import Proxies
    from headrace.errors import ConfigError, MediaError
    from headrace.planner.plan_config import PlanConfig
    from headrace.planner.proxy_gain import proxy_gain

    by_path = {str(index.source.path): index for index in made.plan.indexes.values()}
    try:
        return proxy_gain(
            [by_path[row.path] for row in rows],
            Proxies(made.options.out).all([row.path for row in rows]),
            rows,
            PlanConfig(size=made.options.size.frame_size),
        )
    except (ConfigError, MediaError, KeyboardInterrupt):
        return None


def _lost_words(totals: "ProxyTotals") -> Iterator[str]:
    from headrace.profiling.number_format import counted, megabytes, percent

    yield (
        f"Size: {megabytes(totals.bytes)} in {counted(totals.proxies, 'file')}, "
        f"{percent(totals.bytes / totals.original_bytes)} of the originals"
    )
    for name, each, places in (("PSNR", totals.psnr, 1), ("SSIM", totals.ssim, 3)):
        if each is None:
            continue
        unit = " dB" if name == "PSNR" else ""
        yield (
            f"{name}: {each.mean:.{places}f}{unit}; in the worst frame "
            f"{each.worst:.{places}f}{unit} ({Path(each.worst_path).name})"
        )


def _gain_words(gain: "ProxyGain") -> Iterator[str]:
    from headrace.profiling.number_format import decimal

    yield (
        f"Predicted frames/s, batches of {gain.batch_size} in {gain.memory_budget}: "
        "originals, proxies"
    )
    for each in gain.gains:
        yield f"  {each.strategy:<22}{decimal(each.before):>9}{decimal(each.after):>10}"
    if gain.others >= _BUSY:
        yield (
            f"  Other programs kept {gain.others:.1f} cores busy meanwhile: time it again with "
            "headrace plan"
        )
