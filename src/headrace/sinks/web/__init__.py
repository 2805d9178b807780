"""Web page of a live run, and the same figures for programs.

Begin with `web_app.py`, then `web_sink.py`.
Access (`access_control.py`) and Prometheus (`prometheus.py`) change alone.
"""
