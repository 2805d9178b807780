"""Proxies: videos re-encoded at the size of a model, with short GOPs.

Begin with `make_proxy.py`, then `proxy_extraction.py`.
Quality measurement (`quality.py`) and the encoder (`encoder.py`) are independent of the rest.
"""
