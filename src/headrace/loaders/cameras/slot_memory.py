"""SlotMemory: recurrent state of a model, by slot."""

from collections.abc import Mapping
from typing import Any, TypeGuard

import torch

from headrace.errors import ConfigError
from headrace.loaders.epochs import STATE_VERSION, check_state_version


class SlotMemory:
    """Recurrent state of a model by slot, for batches whose positions change their clip.

        memory = SlotMemory(torch.zeros(256, 64))      # state at the start of a clip
        for batch in loader:
            before = memory.of(batch)                  # [N, 256, 64]
            loss, after = model(batch["frames"], before)
            memory.keep(batch, after.detach())

    The key is `batch["slot"]`, so it works with a `CameraLoader`, and with a stock DataLoader with
    any number of workers. The state is reset where `batch["first_frame"]` marks the start of a
    clip. Gradients flow through stored state unless it is detached.

    Args:
        initial: State before the first moment of a clip: a tensor without a batch dimension, or a
            dict of tensors. Stored state has the same device and dtype.

    Raises:
        ConfigError: `initial` has another type.
    """

    def __init__(self, initial: torch.Tensor | dict[str, torch.Tensor]) -> None:
        """Create an empty memory."""
        self._is_tensor = isinstance(initial, torch.Tensor)
        tensors: object = {"": initial} if self._is_tensor else initial
        if (
            not isinstance(tensors, dict)
            or not tensors
            or not all(map(_is_tensor, tensors.values()))
        ):
            raise ConfigError(
                "initial must be a tensor or a dict of tensors, without a batch dimension, got "
                f"{type(initial).__name__}"
            )
        self._initial: dict[str, torch.Tensor] = tensors
        self._stored: dict[int, dict[str, torch.Tensor]] = {}

    def of(self, batch: Mapping[str, Any]) -> Any:
        """Return the state of the N clips of a batch: `initial` with a batch dimension N in front.

        Args:
            batch: A batch with `slot`, int64 [N], and `first_frame`, bool [N].

        Raises:
            ConfigError: the batch lacks `slot` or `first_frame`.
        """
        slots, starts = _column(batch, "slot"), _column(batch, "first_frame")
        rows = [
            self._initial if is_first else self._stored.get(slot, self._initial)
            for slot, is_first in zip(slots, starts, strict=True)
        ]
        state = {name: torch.stack([row[name] for row in rows]) for name in self._initial}
        return state[""] if self._is_tensor else state

    def keep(
        self, batch: Mapping[str, Any], memory: torch.Tensor | dict[str, torch.Tensor]
    ) -> None:
        """Store the state after a batch, with the names and shapes that `of` returns.

        Raises:
            ConfigError: names, dtype, device or shape differ from `initial`, or the number of clips
                differs from the batch.
        """
        slots = _column(batch, "slot")
        tensors: object = {"": memory} if self._is_tensor else memory
        if not isinstance(tensors, dict) or tensors.keys() != self._initial.keys():
            raise ConfigError(f"{self._expected()}, got {_describe(memory)}")
        for name, values in tensors.items():
            initial = self._initial[name]
            if not _is_tensor(values) or values.shape != (len(slots), *initial.shape):
                raise ConfigError(
                    f"{self._expected()} for each of {len(slots)} clips, got {_describe(memory)}"
                )
            if (values.dtype, values.device) != (initial.dtype, initial.device):
                raise ConfigError(
                    f"the state must be {initial.dtype} on {initial.device}, as initial, got "
                    f"{values.dtype} on {values.device}; convert it with .to(initial)"
                )
        for position, slot in enumerate(slots):
            self._stored[slot] = {name: values[position] for name, values in tensors.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the stored state for a checkpoint: slots, and tensors by name."""
        slots = sorted(self._stored)
        rows = [self._stored[slot] for slot in slots]
        return {
            "version": STATE_VERSION,
            "slots": slots,
            "memory": {
                name: torch.stack([row[name].detach() for row in rows]) if rows else None
                for name in self._initial
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state that `state_dict` returned, to the device of `initial`.

        Raises:
            ConfigError: the state has another structure, version, other names or other shapes.
        """
        if not isinstance(state, Mapping) or not {"slots", "memory"} <= state.keys():
            raise ConfigError(
                "a state must be a dict with slots and memory, from state_dict(), got "
                f"{_describe(state)}"
            )
        check_state_version(state)
        slots, tensors = state["slots"], state["memory"]
        has_names = isinstance(tensors, Mapping) and tensors.keys() == self._initial.keys()
        if not has_names or (slots and not self._have_shapes(tensors, len(slots))):
            raise ConfigError(f"{self._expected()}, got {_describe(tensors)}")
        self._stored = {
            slot: {name: tensors[name][row].to(first) for name, first in self._initial.items()}
            for row, slot in enumerate(slots)
        }

    def _have_shapes(self, tensors: Mapping[str, Any], count: int) -> bool:
        return all(
            getattr(tensors[name], "shape", None) == (count, *initial.shape)
            for name, initial in self._initial.items()
        )

    def _expected(self) -> str:
        initial = self._initial[""] if self._is_tensor else self._initial
        return f"the state must be {_describe(initial)}"


def _column(batch: Mapping[str, Any], name: str) -> list[Any]:
    """Return an entry of a batch that has one value per clip."""
    if not isinstance(batch, Mapping) or not _is_tensor(batch.get(name)):
        raise ConfigError(
            f"batch must be a camera batch with a tensor {name}, got {_describe(batch)}; pass the "
            "loader's batch unchanged"
        )
    values: list[Any] = batch[name].tolist()
    return values


def _is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor)


def _describe(memory: object) -> str:
    if isinstance(memory, torch.Tensor):
        return f"[{', '.join(map(str, memory.shape))}]"
    if isinstance(memory, Mapping):
        parts = (f"{name} {_describe(value)}".strip() for name, value in memory.items())
        return ", ".join(parts) or "{}"
    return type(memory).__name__
