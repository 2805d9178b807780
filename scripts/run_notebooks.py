"""Runs the notebooks of examples/, or those that are named, and keeps them with their outputs."""

import hashlib
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

EXAMPLES = Path(__file__).parents[1] / "examples"
SECONDS = 600
"""For a start and for each cell; far longer than any takes."""


def main() -> None:
    """Run each notebook in an empty folder; one that fails is left as it was."""
    for path in map(Path, sys.argv[1:] or sorted(EXAMPLES.glob("*.ipynb"))):
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            client = NotebookClient(
                notebook,
                kernel_name="python3",
                timeout=SECONDS,
                startup_timeout=SECONDS,
                resources={"metadata": {"path": folder}},
                record_timing=False,
                coalesce_streams=True,
            )
            client.execute()
        notebook.metadata["headrace"] = {"sources_run": digest_of(notebook)}
        nbformat.write(notebook, path)
        print(f"{path.name} was run")


def digest_of(notebook: NotebookNode) -> str:
    """Return what tells the code of a notebook from any other: it is kept with the outputs."""
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256("\0".join(sources).encode()).hexdigest()


if __name__ == "__main__":
    main()
