"""The demonstration: a recorded conversation, played against a real service through the real filter."""
