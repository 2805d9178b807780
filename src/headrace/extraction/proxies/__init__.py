"""Proxies: videos re-encoded at the size of a model, with short GOPs.

Begin with `proxy_extraction.py`; the encoder (`encoder.py`) is independent of it.
"""
