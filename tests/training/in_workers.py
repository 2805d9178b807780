"""Collate functions that a worker of a DataLoader can be sent, and that tell what it did."""

from torch.utils.data import default_collate, get_worker_info


def with_counters(items):
    """Return the batch and what decoding cost its worker so far."""
    return default_collate(items), get_worker_info().dataset.counters
