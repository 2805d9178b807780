"""Description of this machine as one line of JSON: `python -m benchmarks.gpu_check.machine`.

Has the GPU, its decoder, and versions. Runs in its own process, because a driver may hang or crash.
"""

import json
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import av
import numpy as np
import torch

from benchmarks.command_line import call
from benchmarks.gpu_check.step import Need, print_reading
from headrace import BackendError, DecodeJob, DecoderConfig, HeadraceError, IndexStore
from headrace.decode.open_decoder import capabilities_of, open_decoder
from headrace.profiling.machine import provenance
from headrace.profiling.provenance import Provenance
from headrace.testing.synth import SynthClip, write_clip

_GPU = 0
_SIZE = (288, 512)
"""(height, width) of the test clip; every NVDEC supports it."""


def facts(source: Provenance, *, is_rehearsal: bool) -> dict[str, Any]:
    """Return the missing requirements with reasons, and a table of the machine."""
    missing = {} if is_rehearsal else _missing_hardware() | _missing_library()
    rows = [
        *(("GPU", f"{gpu.name}, {gpu.memory_bytes >> 20} MiB") for gpu in source.machine.gpus),
        *(("driver", gpu.driver or "unknown") for gpu in source.machine.gpus[:1]),
        ("CUDA of PyTorch", torch.version.cuda or "none"),
        ("PyAV", av.__version__),
        *source.versions.items(),
    ]
    if not is_rehearsal:
        rows.append(("NVDEC", missing.get("NVDEC", "decodes")))
        rows.append(("PyNvVideoCodec", missing.get("PyNvVideoCodec", "installed")))
    gpus = ", ".join(gpu.name for gpu in source.machine.gpus)
    said = f"GPU: {gpus or 'none'}; {source.machine.cpu}, {source.machine.usable_cores} cores"
    more = {"missing": missing, "provenance": source.model_dump(mode="json")}
    return {"said": said, "heads": ["property", "value"], "rows": rows, **more}


def _missing_hardware() -> dict[Need, str]:
    if not torch.cuda.is_available():
        return {"a GPU": "no NVIDIA GPU here", "NVDEC": "no NVIDIA GPU here"}
    with TemporaryDirectory() as folder:
        path = write_clip(Path(folder) / "clip", SynthClip(size=_SIZE, num_frames=4))
        store = IndexStore(Path(folder) / "index")
        try:
            expected, frames = (_decoded(path, gpu, store) for gpu in (None, _GPU))
        except HeadraceError as error:
            return {"NVDEC": f"no NVDEC here: {error}"}
    if np.array_equal(expected, frames):
        return {}
    return {"NVDEC": "NVDEC's pixels of an H.264 clip differ from the CPU's"}


def _missing_library() -> dict[Need, str]:
    try:
        capabilities_of(DecoderConfig(backend="pynvvideocodec", device=f"cuda:{_GPU}"))
    except BackendError as error:
        return {"PyNvVideoCodec": str(error)}
    return {}


def _decoded(path: Path, gpu: int | None, store: IndexStore) -> np.ndarray[Any, np.dtype[np.uint8]]:
    with closing(open_decoder(path, gpu=gpu, index_store=store)) as decoder:
        return np.stack([np.asarray(f) for _, f in decoder.run(DecodeJob((0, 1, 2, 3)))])


def main(*, rehearse: bool = False, parameters: str = "{}", command: str = "[]") -> None:
    """Print the description.

    Args:
        rehearse: describe the machine without a GPU
        parameters: parameters of the check, as JSON, for the result
        command: command line of the check, as JSON, for the result
    """
    source = provenance(json.loads(parameters), json.loads(command))
    print_reading(**facts(source, is_rehearsal=rehearse))


if __name__ == "__main__":
    call(main, __doc__)
