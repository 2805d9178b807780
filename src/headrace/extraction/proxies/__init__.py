"""Proxies: videos written once more, at the size of a model, in short GOPs."""
