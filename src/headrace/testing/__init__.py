"""Public fakes and synthetic video, for tests of headrace and of its users.

Begin with `synth.py` and `fake_clock.py`.
The pixels of a drawn clip never change: tests compare them with hashes.
"""
