"""Measuring in interleaved turns: how long, how much, and how far the figures can be trusted."""
