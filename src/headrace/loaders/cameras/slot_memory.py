"""SlotMemory: what a model remembers of each slot, given back to the clip it is of."""

from collections.abc import Mapping
from typing import Any, TypeGuard

import torch

from headrace.errors import ConfigError


class SlotMemory:
    """Memory by slot, for batches whose places show other clips from one to the next.

        memory = SlotMemory(torch.zeros(256, 64))      # what is remembered of a clip that begins
        for batch in loader:
            before = memory.of(batch)                  # [N, 256, 64]
            loss, after = model(batch["frames"], before)
            memory.keep(batch, after.detach())

    It follows `batch["slot"]`, so it is right with a `CameraLoader` and with a stock DataLoader,
    however many workers take turns; and it is void where `batch["first_frame"]` says that another
    clip begins. Gradients go through what is kept: detach it, unless they are to.

    Args:
        initial: What is remembered before the first moment of a clip: a tensor, without the
            dimension of slots, or a dict of such. On the device, and of the dtype, of the memory.

    Raises:
        ConfigError: it is neither.
    """

    def __init__(self, initial: torch.Tensor | dict[str, torch.Tensor]) -> None:
        """Remember nothing yet."""
        self._is_one = isinstance(initial, torch.Tensor)
        found: object = {"": initial} if self._is_one else initial
        if not isinstance(found, dict) or not found or not all(map(_is_tensor, found.values())):
            raise ConfigError(
                "SlotMemory begins with a tensor, or a dict of tensors, without the dimension of "
                f"slots; got {type(initial).__name__}"
            )
        self._initial: dict[str, torch.Tensor] = found
        self._kept: dict[int, dict[str, torch.Tensor]] = {}

    def of(self, batch: Mapping[str, Any]) -> Any:
        """Return what is remembered of the N clips of a batch, as `initial` with N in front.

        Args:
            batch: Its `slot` int64 [N] and `first_frame` bool [N] are looked at.

        Raises:
            ConfigError: it has none.
        """
        slots, begins = _of_batch(batch, "slot"), _of_batch(batch, "first_frame")
        rows = [
            self._initial if is_first else self._kept.get(slot, self._initial)
            for slot, is_first in zip(slots, begins, strict=True)
        ]
        found = {name: torch.stack([row[name] for row in rows]) for name in self._initial}
        return found[""] if self._is_one else found

    def keep(
        self, batch: Mapping[str, Any], memory: torch.Tensor | dict[str, torch.Tensor]
    ) -> None:
        """Remember what is known behind a batch: as `of` returned it, with the same names.

        Raises:
            ConfigError: it has other names, another dtype or device than `initial`, or another
                number of clips than the batch.
        """
        slots = _of_batch(batch, "slot")
        found: object = {"": memory} if self._is_one else memory
        if not isinstance(found, dict) or found.keys() != self._initial.keys():
            raise ConfigError(f"a memory of {self._names()} is kept, got {_said(memory)}")
        for name, values in found.items():
            if not _is_tensor(values) or values.shape != (len(slots), *self._initial[name].shape):
                raise ConfigError(
                    f"a memory of {self._names()} is kept, with {len(slots)} clips in front, got "
                    f"{_said(memory)}"
                )
            _check_kind(values, self._initial[name])
        for place, slot in enumerate(slots):
            self._kept[slot] = {name: values[place] for name, values in found.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return what is remembered, for a checkpoint: slots, and tensors by name."""
        slots = sorted(self._kept)
        rows = [self._kept[slot] for slot in slots]
        return {
            "slots": slots,
            "memory": {
                name: torch.stack([row[name].detach() for row in rows]) if rows else None
                for name in self._initial
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Remember what `state_dict` returned, on the device of `initial`.

        Raises:
            ConfigError: it is none, or of a memory with other names or shapes.
        """
        if not isinstance(state, Mapping) or not {"slots", "memory"} <= state.keys():
            raise ConfigError(
                "a state is a dict of slots and memory, as state_dict() gives it, got "
                f"{_said(state)}"
            )
        slots, kept = state["slots"], state["memory"]
        if not isinstance(kept, Mapping) or kept.keys() != self._initial.keys():
            raise ConfigError(f"a memory of {self._names()} is kept, the state has {_said(kept)}")
        of_slots: dict[int, dict[str, torch.Tensor]] = {slot: {} for slot in slots}
        for name, initial in self._initial.items():
            if slots and getattr(kept[name], "shape", None) != (len(slots), *initial.shape):
                raise ConfigError(
                    f"a memory of {self._names()} is kept, the state has {_said(kept)}"
                )
            for place, slot in enumerate(slots):
                of_slots[slot][name] = kept[name][place].to(initial)
        self._kept = of_slots

    def _names(self) -> str:
        return _said(self._initial[""] if self._is_one else self._initial)


def _of_batch(batch: Mapping[str, Any], name: str) -> list[Any]:
    """Return what a batch says of each of its clips."""
    if not isinstance(batch, Mapping) or not _is_tensor(batch.get(name)):
        raise ConfigError(
            f"SlotMemory looks at the {name} of a batch of cameras, a tensor, got {_said(batch)}; "
            "give it the whole batch, as the loader gave it"
        )
    found: list[Any] = batch[name].tolist()
    return found


def _check_kind(values: torch.Tensor, initial: torch.Tensor) -> None:
    """Refuse what cannot lie beside what clips begin with: ConfigError."""
    if (values.dtype, values.device) != (initial.dtype, initial.device):
        raise ConfigError(
            f"a memory begins as {initial.dtype} on {initial.device}, and {values.dtype} on "
            f"{values.device} is to be kept; begin with such, or keep what .to(initial) makes of it"
        )


def _is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor)


def _said(memory: object) -> str:
    if isinstance(memory, torch.Tensor):
        return f"[{', '.join(map(str, memory.shape))}]"
    if isinstance(memory, Mapping):
        return ", ".join(f"{name} {_said(each)}".strip() for name, each in memory.items()) or "{}"
    return type(memory).__name__
