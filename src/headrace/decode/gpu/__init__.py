"""GPU decoding behind one module, with frames that may stay on the device.

Begin with `gpu_decoding.py`, the only module that other code imports.
The rest of the folder may change alone, except for the public counters in `device_scheduler.py`.
"""
