"""Extraction of frames, features and proxies to disk: videos are decoded once, on all cores."""
