"""Sinks of results: annotated videos, files of predictions, window, web page."""
