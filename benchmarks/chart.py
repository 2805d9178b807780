"""Bars of frames per second as SVG, one file for light pages and one for dark ones."""

from collections.abc import Mapping, Sequence
from html import escape

from benchmarks.record import Row

THEMES = {
    "light": {"text": "#1f2328", "headrace": "#0969da", "others": "#8c959f"},
    "dark": {"text": "#e6edf3", "headrace": "#4493f8", "others": "#6e7681"},
}
"""Colours of GitHub's two themes; the background stays transparent."""
WIDTH, LABELS, BAR, GAP, TOP = 760, 250, 15, 12, 34
OPACITIES = [1.0, 0.55, 0.35]


def bars(title: str, lines: Sequence[Sequence[Row]], names: Mapping[str, str], theme: str) -> str:
    """One group of bars per entrant that was timed and has a name, one bar per kind of media."""
    colours = THEMES[theme]
    groups = [rows for rows in lines if rows[0].name in names and any(r.repeats for r in rows)]
    fastest = max((row.speed for rows in groups for row in rows), default=1.0)
    kinds = [row.kind for row in groups[0]] if groups else []
    parts = [_legend(kinds, colours["others"], colours["text"])]
    top = TOP
    for rows in groups:
        middle = top + BAR * len(rows) / 2 + 4
        is_ours = rows[0].name.startswith("headrace")
        style = ' text-anchor="end"' + (' font-weight="600"' if is_ours else "")
        name = escape(names[rows[0].name].replace("**", ""))
        parts.append(_text(LABELS - 10, middle, name, colours["text"], style))
        colour = colours["headrace" if is_ours else "others"]
        for row, opacity in zip(rows, OPACITIES, strict=False):
            length = (WIDTH - LABELS - 60) * row.speed / fastest
            parts.append(_bar(LABELS, top, length, colour, opacity))
            parts.append(
                _text(LABELS + length + 6, top + BAR - 3, f"{row.speed:,.0f}", colours["text"])
            )
            top += BAR
        top += GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" '
        f'role="img" aria-label="{escape(title)}" font-family="system-ui, sans-serif" '
        'font-size="12">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def picture(name: str, title: str, folder: str) -> str:
    """HTML that shows one of the two charts of `name` in `folder`, as the page's theme asks."""
    return (
        '<picture>\n<source media="(prefers-color-scheme: dark)" '
        f'srcset="{folder}/{name}-dark.svg">\n'
        f'<img alt="{escape(title)}" src="{folder}/{name}-light.svg">\n</picture>'
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
