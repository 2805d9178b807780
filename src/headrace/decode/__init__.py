"""Pixels from packets: one protocol, one file per backend; nothing here starts a thread."""
