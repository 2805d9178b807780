"""Live runs: pipeline, session, status, and the Python loop `headrace.live`."""
