"""What is kept of the talk word for word: pins, talk, and where a value was said again."""
