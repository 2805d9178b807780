"""Proxies: videos encoded again, at the size of a model, with short GOPs.

Begin with `make_proxy.py`, then `proxy_extraction.py`.
The measured quality (`quality.py`) and the encoder (`encoder.py`) change without the rest.
"""
