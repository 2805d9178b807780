"""Which frames, in which order: pure and seeded; it never says how they are decoded."""
