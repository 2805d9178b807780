"""Runs of a model on videos, from decode to sinks, recorded as sessions."""
