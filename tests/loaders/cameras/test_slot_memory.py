"""SlotMemory returns the state of each clip by its slot."""

import pytest
import torch

from headrace import SlotMemory


def batch(slots, begins):
    return {"slot": torch.tensor(slots), "first_frame": torch.tensor(begins)}


def test_a_slot_gets_its_own_memory_wherever_it_stands_in_the_batch():
    memory = SlotMemory(torch.zeros(2))
    first = batch([0, 1], [True, True])
    assert torch.equal(memory.of(first), torch.zeros(2, 2))
    memory.keep(first, torch.tensor([[1.0, 1.0], [2.0, 2.0]]))
    other = batch([8, 9], [True, False])  # a batch of another worker, in between
    memory.keep(other, memory.of(other) + 5)
    assert memory.of(batch([1, 8, 0], [False] * 3)).tolist() == [[2, 2], [5, 5], [1, 1]]


def test_memory_is_cleared_at_the_start_of_another_clip():
    memory = SlotMemory({"bev": torch.full((3,), 7.0), "age": torch.tensor(0)})
    first = batch([4, 5], [True, True])
    memory.keep(first, {"bev": torch.ones(2, 3), "age": torch.tensor([1, 1])})
    state = memory.of(batch([4, 5], [False, True]))
    assert state["bev"].tolist() == [[1.0] * 3, [7.0] * 3]
    assert state["age"].tolist() == [1, 0]


def test_gradients_flow_through_memory_unless_detached():
    weight = torch.ones(1, requires_grad=True)
    both = batch([0], [False])
    for detached, has_gradient in ((False, True), (True, False)):
        memory = SlotMemory(torch.zeros(1))
        kept = weight.expand(1, 1) * 2
        memory.keep(both, kept.detach() if detached else kept)
        assert memory.of(both).requires_grad is has_gradient


@pytest.mark.parametrize("initial", [torch.zeros(2), {"a": torch.zeros(2)}], ids=["one", "dict"])
def test_a_memory_goes_on_from_its_state(initial, tmp_path):
    memory, seen = SlotMemory(initial), batch([3, 1], [True, True])
    before = memory.of(seen)
    after = before + 1 if isinstance(initial, torch.Tensor) else {"a": before["a"] + 1}
    memory.keep(seen, after)
    torch.save(memory.state_dict(), tmp_path / "state.pt")
    other = SlotMemory(initial)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    again = batch([1, 3, 2], [False] * 3)
    torch.testing.assert_close(other.of(again), memory.of(again))
    fresh = SlotMemory(initial)
    fresh.load_state_dict(SlotMemory(initial).state_dict())  # nothing stored yet
    torch.testing.assert_close(fresh.of(seen), before)


def test_invalid_values_of_memory_are_refused(refused):
    """Another dtype too: a batch would mix the dtypes of stored and initial state."""
    memory, named = SlotMemory(torch.zeros(2)), SlotMemory({"bev": torch.zeros(2)})
    batches = {"both": batch([0, 1], [True, True]), "one": batch([0], [True])}
    refused("slot_memory", kept=torch.zeros(1, 2), memory=memory, named=named, **batches)
