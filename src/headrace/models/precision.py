"""Where models may run and how finely they may compute, as words; loads no PyTorch."""

from typing import Literal

Device = Literal["cpu", "cuda"]
Precision = Literal["float32", "float16", "bfloat16"]
