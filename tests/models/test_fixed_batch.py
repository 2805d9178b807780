"""A compiled model sees batches of one size."""

import torch
from torch import nn

from headrace.models.compute import Compute
from headrace.models.fixed_batch import FixedBatch
from headrace.models.prepare import prepare
from models.tiny import Mean, tiny


class Shapes(Mean):
    """Keeps the number of pictures of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        self.seen.append(len(batch))
        return super().forward(batch)


def test_a_short_batch_is_filled_up_and_what_the_filling_gives_is_cut_off():
    module = Shapes()
    ready = prepare(
        lambda: tiny(module), Compute(compile=True), batch_size=4, compiler=lambda given: given
    ).model
    batch = torch.rand(3, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    assert ready.run(batch) == tiny(Mean()).run(batch)
    assert set(module.seen) == {4}


def test_a_full_batch_and_a_larger_one_go_through_as_they_are():
    module = Shapes()
    fixed = FixedBatch(module, 4)
    assert fixed(torch.ones(4, 3, 2, 2)).shape == (4, 3)
    assert fixed(torch.ones(6, 3, 2, 2)).shape == (6, 3)
    assert module.seen == [4, 6]


def test_of_several_outputs_each_is_cut():
    class Two(nn.Module):
        def forward(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"a": batch, "b": 2 * batch}

    found = FixedBatch(Two(), 4)(torch.ones(1, 2))
    assert {name: tuple(value.shape) for name, value in found.items()} == {"a": (1, 2), "b": (1, 2)}


def test_all_batches_have_the_layout_that_was_compiled_for():
    class Strides(nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            seen.append(batch.stride())
            return batch

    seen: list[tuple[int, ...]] = []
    frames = torch.zeros(4, 5, 6, 3).permute(0, 3, 1, 2)
    for layout in (torch.contiguous_format, torch.channels_last):
        fixed = FixedBatch(Strides(), 4, layout)
        for batch in (frames, frames[:3], frames.contiguous()):
            fixed(batch)
    assert seen == [(90, 30, 6, 1)] * 3 + [(90, 1, 18, 3)] * 3
