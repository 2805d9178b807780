"""Web page of a live run, and its metrics for programs.

Begin with `web_sink.py`.
Access control (`web_options.py`) and Prometheus (`prometheus.py`) are independent of the rest.
"""
