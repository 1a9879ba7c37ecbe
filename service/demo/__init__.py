"""The demonstration: a recorded conversation, played through the real filter and service."""
