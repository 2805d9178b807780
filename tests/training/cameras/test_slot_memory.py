"""What is remembered by slot comes back to the clip it is of."""

import pytest
import torch

from headrace import ConfigError, SlotMemory


def batch(slots, begins):
    return {"slot": torch.tensor(slots), "first_frame": torch.tensor(begins)}


def test_a_slot_gets_its_own_memory_wherever_it_stands_in_the_batch():
    memory = SlotMemory(torch.zeros(2))
    first = batch([0, 1], [True, True])
    assert torch.equal(memory.of(first), torch.zeros(2, 2))
    memory.keep(first, torch.tensor([[1.0, 1.0], [2.0, 2.0]]))
    other = batch([8, 9], [True, False])  # of another worker, in between
    memory.keep(other, memory.of(other) + 5)
    assert torch.equal(
        memory.of(batch([1, 8, 0], [False] * 3)), torch.tensor([[2.0] * 2, [5.0] * 2, [1.0] * 2])
    )


def test_what_was_remembered_is_void_where_another_clip_begins():
    memory = SlotMemory({"bev": torch.full((3,), 7.0), "age": torch.tensor(0)})
    first = batch([4, 5], [True, True])
    memory.keep(first, {"bev": torch.ones(2, 3), "age": torch.tensor([1, 1])})
    found = memory.of(batch([4, 5], [False, True]))
    assert found["bev"].tolist() == [[1.0] * 3, [7.0] * 3]
    assert found["age"].tolist() == [1, 0]


def test_gradients_go_through_what_is_kept_unless_it_is_detached():
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
    fresh.load_state_dict(SlotMemory(initial).state_dict())  # nothing remembered yet
    torch.testing.assert_close(fresh.of(seen), before)


def test_impossible_memories_say_what_is_kept():
    for nothing in (None, {}, {"a": 1.0}, [torch.zeros(2)]):
        with pytest.raises(ConfigError, match="begins with a tensor, or a dict of tensors"):
            SlotMemory(nothing)
    memory, both = SlotMemory(torch.zeros(2)), batch([0, 1], [True, True])
    with pytest.raises(ConfigError, match=r"a memory of \[2\] is kept, with 2 clips .* got \[2\]"):
        memory.keep(both, torch.zeros(2))
    with pytest.raises(ConfigError, match=r"got dict|got bev"):
        memory.keep(both, {"bev": torch.zeros(2, 2)})
    named = SlotMemory({"bev": torch.zeros(2)})
    with pytest.raises(ConfigError, match=r"a memory of bev \[2\] is kept, got \[2, 2\]"):
        named.keep(both, torch.zeros(2, 2))
    with pytest.raises(ConfigError, match="the state has"):
        named.load_state_dict(memory.state_dict())


def test_what_is_no_batch_and_no_state_is_named():
    memory, kept = SlotMemory(torch.zeros(2)), torch.zeros(1, 2)
    for nothing in (5, {}, {"frames": kept}, {"slot": [3]}):
        with pytest.raises(ConfigError, match="looks at the slot of a batch"):
            memory.of(nothing)
        with pytest.raises(ConfigError, match="looks at the slot of a batch"):
            memory.keep(nothing, kept)
    with pytest.raises(
        ConfigError, match=r"the first_frame of .* got slot \[1\]; give it the whole"
    ):
        memory.of({"slot": torch.tensor([0])})
    for nothing in (5, {}, {"slots": [0]}):
        with pytest.raises(ConfigError, match="a dict of slots and memory"):
            memory.load_state_dict(nothing)
    with pytest.raises(ConfigError, match="the state has NoneType"):
        memory.load_state_dict({"slots": [0], "memory": None})
    with pytest.raises(ConfigError, match="the state has"):
        memory.load_state_dict({"slots": [0], "memory": {"": None}})


def test_memory_of_another_kind_is_refused_where_it_is_kept():
    """Else it would be of one dtype where a clip begins in the batch, and of another elsewhere."""
    memory = SlotMemory(torch.zeros(2))
    half = torch.zeros(1, 2, dtype=torch.bfloat16)
    with pytest.raises(ConfigError, match=r"begins as torch.float32 .* torch.bfloat16 on cpu is"):
        memory.keep(batch([0], [True]), half)
    with pytest.raises(ConfigError, match="float32 on meta"):
        memory.keep(batch([0], [True]), torch.zeros(1, 2, device="meta"))
