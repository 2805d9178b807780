"""`headrace proxy`: small copies of videos with short GOPs, for random access."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.config_flags import JSON, configured, option, parameters, with_parameters
from headrace.cli.extract_run import ESTIMATE, OutputNouns, run_extraction, sources_of_files
from headrace.errors import ConfigError, MediaError
from headrace.extraction.proxies.proxy_options import ProxyOptions, originals_of, proxy_size
from headrace.profiling.number_format import counted, decimal, megabytes, percent

if TYPE_CHECKING:
    from headrace.decode.proxies import ProxyRow
    from headrace.extraction.extraction_plan import ExtractionResult
    from headrace.extraction.proxies.proxy_extraction import ProxyMaking, ProxyTotals
    from headrace.planner.proxy_gain import ProxyGain

_NOUNS: Final = OutputNouns(noun="frame", sample="frame", none="without a proxy")
_BUSY_CORES: Final = 0.2
"""CPU cores used by other programs above which the summary warns of disturbed timings."""
_PARAMETERS: Final = (
    *parameters(ProxyOptions, only="sources out"),
    option("size", str, "256", "Pixels of the shorter side, or height and width.", metavar="N|HxW"),
    *parameters(ProxyOptions, only="gop codec"),
    *parameters(
        ProxyOptions,
        only="workers on_error retry",
        on_error={
            "help": "At damaged videos: stop, leave them out and list them, or keep FFmpeg's "
            "concealment."
        },
    ),
    ESTIMATE,
    option("gain", bool, True, "Time originals and proxies at the end, and print the gain."),
    JSON,
)


def _make_proxies(**typed: Any) -> None:
    from headrace.extraction.proxies.proxy_extraction import ProxyMaking

    options = configured(
        ProxyOptions,
        typed,
        sources=originals_of(map(Path, sources_of_files(typed, "proxies")), typed["out"]),
        size=proxy_size(typed["size"]),
    )
    run_extraction(
        ProxyMaking,
        options,
        _NOUNS,
        typed,
        details=lambda result, making: _record_totals(result, making, measures=typed["gain"]),
    )


proxy = with_parameters(
    _make_proxies,
    _PARAMETERS,
    "Write small copies with short GOPs, for fast random access. Resumable: run it again.",
)


def _record_totals(
    result: "ExtractionResult", making: "ProxyMaking", *, measures: bool
) -> list[str]:
    """Write size, quality and gain of all proxies to the record of the folder; return lines.

    With `measures`, times originals and proxies, which takes about 5 s.

    Raises:
        ConfigError: the record cannot be written.
    """
    from headrace.decode.proxies import read_rows
    from headrace.extraction.proxies.proxy_extraction import ProxyTotals
    from headrace.planner.proxy_gain import RECORD, write_record

    if result.session.outcome != "complete":
        return []
    # Without a record, the run that wrote the last proxy ended before it wrote one.
    is_recorded = (making.options.out / RECORD).exists() and result.came == result.were_there
    rows = [] if is_recorded else list(read_rows(making.options.out))
    totals = ProxyTotals.of(rows)
    if totals is None:
        return []
    gain = _measured_gain(making, rows) if measures else None
    write_record(making.options.out, totals, gain)
    return [*_quality_lines(totals), *(_gain_lines(gain) if gain else ())]


def _measured_gain(making: "ProxyMaking", rows: "list[ProxyRow]") -> "ProxyGain | None":
    """Return the measured gain; None if the videos are too few, or after Ctrl-C."""
    from headrace.decode.proxies import Proxies
    from headrace.planner.plan_config import PlanConfig
    from headrace.planner.proxy_gain import proxy_gain

    by_path = {str(index.source.path): index for index in making.plan.indexes.values()}
    try:
        return proxy_gain(
            [by_path[row.path] for row in rows],
            Proxies(making.options.out).all([row.path for row in rows]),
            rows,
            PlanConfig(size=making.options.size.frame_size),
        )
    except (ConfigError, MediaError, KeyboardInterrupt):
        return None


def _quality_lines(totals: "ProxyTotals") -> Iterator[str]:
    yield (
        f"Size: {megabytes(totals.bytes)} in {counted(totals.proxies, 'file')}, "
        f"{percent(totals.bytes / totals.original_bytes)} of the originals"
    )
    measures = (("PSNR", totals.psnr, 1, " dB"), ("SSIM", totals.ssim, 3, ""))
    for name, quality, digits, unit in measures:
        if quality is not None:
            yield (
                f"{name}: {quality.mean:.{digits}f}{unit}; in the worst frame "
                f"{quality.worst:.{digits}f}{unit} ({Path(quality.worst_path).name})"
            )


def _gain_lines(gain: "ProxyGain") -> Iterator[str]:
    yield (
        f"Predicted frames/s, batches of {gain.batch_size} in {gain.memory_budget}: "
        "originals, proxies"
    )
    for row in gain.gains:
        yield f"  {row.strategy:<22}{decimal(row.before):>9}{decimal(row.after):>10}"
    if gain.others >= _BUSY_CORES:
        yield (
            f"  Other programs used {gain.others:.1f} cores meanwhile; measure again with headrace "
            "plan"
        )
