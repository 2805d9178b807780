"""A changed loader behaves like one created with these arguments: same batches, same order."""

from functools import partial
from operator import attrgetter
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from headrace.instrumentation import patch_all
from headrace.instrumentation.dataloader_hook import describe_loader
from headrace.instrumentation.patch_all import LoopRegistry, change_loader, record_loader

HERE = "train.py:18"


def make(**arguments) -> DataLoader:
    return DataLoader(list(range(24)), **{"batch_size": 4, "shuffle": True, **arguments})


def change_of(loader: DataLoader, **options):
    loop = {"loop": HERE, **dict(describe_loader(loader).configuration)}
    return {"loop": loop, "options": options}


def order(loader: DataLoader) -> list[int]:
    """Return the numbers of two epochs, drawn from one seed."""
    torch.manual_seed(7)
    return [int(number) for _ in range(2) for batch in loader for number in batch]


CHANGES = [
    ({}, {"num_workers": 2}),
    ({"num_workers": 1}, {"num_workers": 2}),
    ({"num_workers": 1, "prefetch_factor": 4}, {"num_workers": 2}),
    ({"num_workers": 1}, {"prefetch_factor": 8}),
    ({"num_workers": 1, "timeout": 30}, {"num_workers": 0}),
    ({"num_workers": 1}, {"persistent_workers": True}),
]
WITHOUT_PERSISTENT = ({"num_workers": 1, "persistent_workers": True}, {"num_workers": 0})
"""The order of its later epochs differs."""


@pytest.mark.parametrize(("before", "options"), [*CHANGES, WITHOUT_PERSISTENT])
def test_a_changed_loader_has_the_arguments_of_a_new_one(before, options) -> None:
    loader = make(**before)
    change_loader(loader, HERE, change_of(loader, **options))
    given = {**before, **options}
    if not given["num_workers"]:
        given = {"num_workers": 0}
    settings = attrgetter("num_workers", "prefetch_factor", "persistent_workers", "timeout")
    assert settings(loader) == settings(make(**given))


@pytest.mark.parametrize(("before", "options"), CHANGES)
def test_batches_and_their_order_stay_the_same_in_each_epoch(before, options, monkeypatch) -> None:
    monkeypatch.setattr(patch_all, "LOOPS", LoopRegistry())
    expected = order(make(**before))
    loader = make(**before)
    created, create = [], loader._get_iterator
    change = change_of(loader, **options)
    change["loop"]["loop"] = f"{Path(__file__).name}:{order.__code__.co_firstlineno + 3}"

    def iterate(loader: DataLoader):
        created.append(loader.num_workers)
        return create()

    loader.__dict__["_get_iterator"] = partial(record_loader, loader, iterate, change)
    try:
        assert order(loader) == expected
    finally:
        del loader.__dict__["_get_iterator"]
    assert {name: getattr(loader, name) for name in options} == options
    assert created == [loader.num_workers] * (1 if loader.persistent_workers else 2)
    assert [site.location for site, _ in patch_all.LOOPS.loops()] == [change["loop"]["loop"]]


@pytest.mark.parametrize(
    ("loader", "location"),
    [(make(), "train.py:19"), (make(batch_size=8), HERE), ([1, 2], HERE)],
    ids=["another line", "another loader of the line", "another iterable"],
)
def test_another_loop_is_unchanged(loader, location) -> None:
    before = dict(vars(loader)) if isinstance(loader, DataLoader) else None
    change_loader(loader, location, change_of(make(), num_workers=2))
    assert before is None or vars(loader) == before
