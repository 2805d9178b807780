"""Bars of frames per second as SVG, one file for light pages and one for dark ones."""

from html import escape

from benchmarks.record import SequentialResult
from benchmarks.tables import NAMES, by_library, median_speed

THEMES = {
    "light": {"text": "#1f2328", "headrace": "#0969da", "others": "#8c959f"},
    "dark": {"text": "#e6edf3", "headrace": "#4493f8", "others": "#6e7681"},
}
"""Colours of GitHub's two themes; the background stays transparent."""
WIDTH, LABELS, BAR, GAP, TOP = 760, 250, 15, 12, 34
OPACITIES = [1.0, 0.55, 0.35]


def sequential_chart(result: SequentialResult, theme: str) -> str:
    """One group of bars per library that was timed, one bar per kind of media."""
    colours = THEMES[theme]
    groups = [rows for rows in by_library(result) if any(row.repeats for row in rows)]
    fastest = max((median_speed(row) for rows in groups for row in rows), default=1.0)
    kinds = [row.kind for row in groups[0]] if groups else []
    parts = [_legend(kinds, colours["others"], colours["text"])]
    top = TOP
    for rows in groups:
        library = rows[0].library
        middle = top + BAR * len(rows) / 2 + 4
        name = escape(NAMES.get(library, library).strip("*"))
        is_ours = library == "headrace"
        style = ' text-anchor="end"' + (' font-weight="600"' if is_ours else "")
        parts.append(_text(LABELS - 10, middle, name, colours["text"], style))
        colour = colours["headrace" if is_ours else "others"]
        for row, opacity in zip(rows, OPACITIES, strict=False):
            length = (WIDTH - LABELS - 60) * median_speed(row) / fastest
            parts.append(_bar(LABELS, top, length, colour, opacity))
            speed = f"{median_speed(row):,.0f}"
            parts.append(_text(LABELS + length + 6, top + BAR - 3, speed, colours["text"]))
            top += BAR
        top += GAP
    title = "Frames per second, every frame in order"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" '
        f'role="img" aria-label="{title}" font-family="system-ui, sans-serif" font-size="12">\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _legend(kinds: list[str], colour: str, text: str) -> str:
    parts = []
    for place, (kind, opacity) in enumerate(zip(kinds, OPACITIES, strict=False)):
        left = LABELS + 80 * place
        parts += [_bar(left, 8, 22, colour, opacity), _text(left + 28, 19, kind, text)]
    parts.append(_text(WIDTH - 4, 19, "frames/s", text, ' text-anchor="end"'))
    return "\n".join(parts)


def _bar(left: float, top: float, length: float, colour: str, opacity: float) -> str:
    return (
        f'<rect x="{left:g}" y="{top:g}" width="{length:.1f}" height="{BAR - 2}" '
        f'fill="{colour}" opacity="{opacity:g}"/>'
    )


def _text(left: float, base: float, text: str, colour: str, more: str = "") -> str:
    return f'<text x="{left:.1f}" y="{base:g}" fill="{colour}"{more}>{text}</text>'
