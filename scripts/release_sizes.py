"""Sizes of installations, as the table of docs/reference/packages.md."""

import platform
from collections.abc import Mapping

from scripts.release_environment import Outcome

START, END = "<!-- sizes -->", "<!-- /sizes -->"


def with_sizes(page: str, sizes: Mapping[str, int], outcomes: list[Outcome]) -> str:
    """Return the page with the text between its marks replaced.

    Args:
        page: Text with `START` and `END`.
        sizes: Bytes of `wheel` and `sdist`.
        outcomes: Installations by uv of one Python; the first has no extra.

    Raises:
        ValueError: a mark or an installation is missing.
    """
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(f"the page needs {START} and {END}")
    return f"{before}{START}\n{size_table(sizes, outcomes)}\n{END}{after}"


def size_table(sizes: Mapping[str, int], outcomes: list[Outcome]) -> str:
    """Return the sizes as Markdown: see `with_sizes`."""
    measured = [
        outcome
        for outcome in outcomes
        if outcome.packages
        and outcome.environment.installer == "uv"
        and not outcome.environment.is_sdist
    ]
    base = next((outcome for outcome in measured if not outcome.environment.extras), None)
    if base is None:
        raise ValueError("headrace without extras was not installed; leave out --only")
    python = base.environment.python
    lines = [
        f"The wheel has {_size(sizes['wheel'])}, the sdist {_size(sizes['sdist'])}. Installed on "
        f"Python {python}, {platform.system()} {platform.machine()}, by uv:",
        "",
        "| Install | Packages | Installed |",
        "|---|---:|---:|",
        f"| `headrace` | {len(base.packages)} | {_size(sum(base.packages.values()))} |",
    ]
    for outcome in measured:
        environment = outcome.environment
        if environment.python == python and environment.extras:
            added = outcome.packages.keys() - base.packages.keys()
            size = sum(outcome.packages[name] for name in added)
            extras = ",".join(environment.extras)
            lines.append(f"| `headrace[{extras}]` | +{len(added)} | +{_size(size)} |")
    return "\n".join(lines)


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
