"""A request to the model: its path, its size, and how a summary is put into it."""
