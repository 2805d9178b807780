"""Cache of results per chunk, keyed by their inputs; failures cost time, never correctness.

Begin with `cache_url.py`, then `key.py`; `store.py` is the protocol of a store.
A store of results is one file plus its scheme in `cache_url.py`. A new key field invalidates all
entries.
`spill_store.py` is separate: packed frames on a local disk, for the loaders.
"""
