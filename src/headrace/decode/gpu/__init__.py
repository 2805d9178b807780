"""GPU ways of decoding; other code imports `gpu_decoding` alone."""
