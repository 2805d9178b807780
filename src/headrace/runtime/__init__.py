"""Threads, bounded queues, stages, clock and statistics; independent of video."""
