"""Clips of synchronized cameras as streams: each frame decoded once, however many read them."""
