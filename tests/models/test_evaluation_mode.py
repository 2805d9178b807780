"""Evaluation mode of a module during a block, and the modes of its parts afterwards."""

from contextlib import suppress
from threading import Thread

import pytest
import torch
from torch import nn

from headrace.models.evaluation_mode import evaluation_mode, is_training


class Refusing(nn.Module):
    """Like the modules of `torch.export`, which have no `eval()`."""

    def train(self, mode=True):
        raise NotImplementedError


@pytest.fixture
def mixed():
    """Return a module in training mode with one layer in evaluation mode."""
    module = nn.Sequential(nn.Dropout(), nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()))
    module[1][0].eval()
    return module


def modes(module):
    return [part.training for part in module.modules()]


BEFORE = [True, True, True, False, True]


@pytest.mark.parametrize("error", [None, KeyError()])
def test_all_parts_are_in_evaluation_mode_in_the_block_and_restored_after_it(mixed, error):
    with suppress(KeyError), evaluation_mode(mixed):
        assert modes(mixed) == [False] * 5
        if error:
            raise error
    assert modes(mixed) == BEFORE


def test_the_last_of_overlapping_blocks_restores_the_modes(mixed):
    first, second = evaluation_mode(mixed), evaluation_mode(mixed)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert modes(mixed) == [False] * 5
    second.__exit__(None, None, None)
    assert modes(mixed) == BEFORE


def test_a_shared_part_is_restored_after_the_last_block_of_its_modules():
    shared = nn.Dropout()
    training, evaluated = nn.Sequential(shared), nn.Sequential(shared).eval()
    with evaluation_mode(evaluated):
        with evaluation_mode(training):
            assert not shared.training
        assert (training.training, shared.training) == (True, False)


def test_threads_may_share_a_module(mixed):
    def enter_repeatedly():
        for _ in range(200):
            with evaluation_mode(mixed):
                flags.append(any(modes(mixed)))

    flags = []
    threads = [Thread(target=enter_repeatedly) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(flags)
    assert modes(mixed) == BEFORE


@pytest.mark.parametrize("model", [len, nn.Linear(1, 1).forward])
def test_a_callable_that_is_not_a_module_is_accepted(model):
    with evaluation_mode(model):
        assert not is_training(model)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_modules_of_every_kind_are_accepted():
    module = nn.Sequential(nn.Dropout())
    compiled = torch.compile(module, backend="eager")
    for training in (Refusing(), torch.jit.script(nn.Dropout(0.5)), module, compiled):
        with evaluation_mode(training):
            assert not is_training(training)
        assert is_training(training)
    with evaluation_mode(compiled):
        assert not is_training(module)
    scripted, batch = torch.jit.script(nn.Dropout(0.5)), torch.ones(64)
    with evaluation_mode(scripted):
        assert torch.equal(scripted(batch), batch)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_frozen_scripted_modules_without_a_mode_are_accepted():
    frozen = torch.jit.freeze(torch.jit.script(nn.Sequential(nn.ReLU()).eval()))
    assert not is_training(frozen)
    with evaluation_mode(frozen):
        assert torch.equal(frozen(torch.ones(2)), torch.ones(2))


def test_a_module_with_one_training_layer_is_training():
    module = nn.Sequential(nn.Dropout()).eval()
    assert not is_training(module)
    module[0].train()
    assert is_training(module)
