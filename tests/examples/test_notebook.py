"""The notebook: its stored outputs, and a new run with equal outputs."""

import hashlib
import re
import shutil

import nbformat
import pytest

from examples.running import EXAMPLES, ended

KEPT = sorted(EXAMPLES.glob("*.ipynb"))
MOST_BYTES = 1_000_000
RUN = EXAMPLES.parent / "scripts" / "run_notebooks.py"


def code_of(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs_of(notebook):
    """Return the outputs of each cell: types, and texts without numbers."""
    return [[*map(_outline, cell.outputs)] for cell in code_of(notebook)]


def _outline(output):
    if output.output_type == "stream":
        return output.name, re.sub(r"\d+(\.\d+)?", "#", output.text)
    assert output.output_type != "error", output
    text = re.sub(r"\d+(\.\d+)?", "#", output.data["text/plain"])
    return sorted(output.data), text


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_the_outputs_are_those_of_the_current_code(path):
    """After a change of a code cell, run scripts/run_notebooks.py."""
    notebook = nbformat.read(path, as_version=4)
    sources = "\0".join(cell.source for cell in code_of(notebook))
    assert notebook.metadata.headrace.sources_run == hashlib.sha256(sources.encode()).hexdigest()
    cells = code_of(notebook)
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    assert any("image/png" in str(outputs) for outputs in outputs_of(notebook))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_the_outputs_are_small_and_contain_no_local_path(path):
    assert path.stat().st_size < MOST_BYTES
    texts = str(outputs_of(nbformat.read(path, as_version=4)))
    assert not re.search(r"/(tmp|home|root|work|Users|usr)\b|site-packages|Traceback", texts)


@pytest.mark.slow
@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_a_new_run_has_equal_outputs(path, tmp_path):
    again = shutil.copy(path, tmp_path)
    here = {
        name: str(tmp_path / name.lower())
        for name in ("XDG_CACHE_HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR")
    }
    done = ended(str(RUN), str(again), **here, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    kept, found = (nbformat.read(each, as_version=4) for each in (path, again))
    assert [cell.source for cell in kept.cells] == [cell.source for cell in found.cells]
    assert outputs_of(found) == outputs_of(kept)
