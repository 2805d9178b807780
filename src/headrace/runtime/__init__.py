"""Threads, bounded queues, stages, child processes, clock and statistics; independent of video.

Begin with `queue.py`, `stage.py` and `pipeline.py`.
Child processes (`child_process.py`) and the server (`asgi_server.py`) are independent of the rest.
"""
