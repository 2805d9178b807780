"""Public fakes and synthetic video, for the tests of headrace and of its users.

Begin with `synth.py` and `fake_clock.py`.
A drawn clip keeps its pixels: tests compare with their hashes.
"""
