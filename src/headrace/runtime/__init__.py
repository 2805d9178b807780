"""Threads, bounded queues, stages, clock and statistics; nothing here knows what a video is."""
