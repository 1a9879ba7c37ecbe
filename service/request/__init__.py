"""What becomes of a request to the model: how a summary is put into it."""
