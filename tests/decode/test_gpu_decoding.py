"""Decoding on GPUs stands behind one module, and is loaded without PyTorch."""

import subprocess
import sys

from house_rules import house

SEAM = "headrace.decode.gpu.gpu_decoding"


def test_other_code_imports_nothing_else_of_the_folder():
    others = [module for module in house() if not module.path.startswith("decode/gpu/")]
    imported = {
        (module.path, name)
        for module in others
        for _, name in module.imports
        if name.startswith("headrace.decode.gpu.") and not f"{name}.".startswith(f"{SEAM}.")
    }
    assert imported == set()


def test_it_is_imported_without_pytorch():
    code = f"import sys, {SEAM}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
