"""Proxies: copies of videos at a model's input size, with short GOPs."""
