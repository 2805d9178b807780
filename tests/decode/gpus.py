"""Which tests need a GPU, and which need that there is none."""

import pytest
import torch

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here")
needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
