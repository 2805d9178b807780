"""The digest of weights: equal for equal numbers, and for nothing else."""

import torch
from torch import nn

from headrace.models.weights_digest import weights_digest


def module(**changed):
    made = nn.Sequential(nn.Conv2d(3, 2, 1), nn.BatchNorm2d(2))
    made.load_state_dict({k: torch.ones_like(v) for k, v in made.state_dict().items()})
    for name, value in changed.items():
        made[0].weight.data[0] = value if name == "weight" else 1
    return made


def test_equal_numbers_have_one_digest_however_they_lie_in_memory():
    assert weights_digest(module()) == weights_digest(module())
    assert weights_digest(module().to(memory_format=torch.channels_last)) == weights_digest(
        module()
    )
    assert len(weights_digest(module())) == len("sha256:") + 64


def test_one_number_a_type_or_a_buffer_makes_another():
    found = {weights_digest(module()), weights_digest(module(weight=1 + 2**-23))}
    found.add(weights_digest(module().half()))
    counted = module()
    counted[1].running_mean[0] += 1
    found.add(weights_digest(counted))
    assert len(found) == 4


def test_the_shape_of_the_same_numbers_counts():
    flat, square = nn.Module(), nn.Module()
    flat.register_buffer("a", torch.ones(4))
    square.register_buffer("a", torch.ones(2, 2))
    assert weights_digest(flat) != weights_digest(square)


def test_scalars_and_numbers_without_numpy_type_are_taken():
    made = nn.Module()
    made.register_buffer("steps", torch.tensor(3))
    made.register_buffer("small", torch.ones(3, dtype=torch.bfloat16))
    assert weights_digest(made).startswith("sha256:")
