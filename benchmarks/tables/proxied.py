"""How fast random frames come from proxies, and what these took."""

from benchmarks.bench_proxy import ORIGINALS, ProxyResult
from benchmarks.record import Row
from benchmarks.tables.markdown import failed, machine, others, table


def proxied(result: ProxyResult) -> str:
    """One line per number of files and way, then one per set of copies."""
    base = {row.kind: row.speed for row in result.rows if row.name == ORIGINALS}
    heads = ["files", "way", "frames/s", "÷ originals", "decoded per frame", "CPU ms per frame"]
    speeds = table(heads, [_line(row, base.get(row.kind, 0.0)) for row in result.rows])
    copies = table(
        ["copies", "bytes ÷ originals'", "PSNR, mean (worst)", "SSIM", "made, frames/s"],
        [
            [
                each.name,
                f"{each.bytes / each.original_bytes:.2f}",
                "" if each.psnr is None else f"{each.psnr:.1f} ({each.psnr_worst:.1f}) dB",
                "" if each.ssim is None else f"{each.ssim:.3f}",
                f"{each.frames / each.make_seconds:,.0f}",
            ]
            for each in result.made
        ],
    )
    words = str(result.provenance.configuration["size"]).strip("()")
    size = "x".join(word.strip() for word in words.split(","))
    notes = (
        f"{result.videos} different videos, 1280x720, under as many names as there are files; "
        f"proxies and JPEGs are {size}. {others(result.rows)} {machine(result)}"
    )
    return f"{speeds}\n\n{copies}\n\n{notes}"


def _line(row: Row, base: float) -> list[str]:
    if not row.repeats:
        return [row.kind, row.name, failed(row), "", "", ""]
    decoded, spent = row.amplification, row.repeats[0].cpu_ms_per_frame
    return [
        row.kind,
        row.name,
        f"{row.speed:,.0f}",
        f"{row.speed / base:.1f}" if base else "",
        "" if decoded is None else f"{decoded:.1f}",
        "" if spent is None else f"{spent:.2f}",
    ]
