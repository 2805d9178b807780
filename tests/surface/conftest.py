"""What users hold on to, kept as text: `pytest tests/surface --update-surface` writes it anew."""

from pathlib import Path

import pytest

SNAPSHOTS = Path(__file__).parent / "snapshots"


def pytest_addoption(parser):
    parser.addoption(
        "--update-surface", action="store_true", help="Write the snapshots of tests/surface anew."
    )


@pytest.fixture
def holds(request):
    """Return a function: (name, text) -> None; fails where the stored snapshot differs."""

    def check(name: str, text: str) -> None:
        path = SNAPSHOTS / name
        if request.config.getoption("--update-surface"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        stored = path.read_text("utf-8") if path.is_file() else ""
        assert text.splitlines() == stored.splitlines(), (
            f"{name} is not what the snapshot says; if that is meant, write it anew by "
            "`pytest tests/surface --update-surface`, and say so in the commit"
        )

    return check
