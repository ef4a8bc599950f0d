"""Where files say that nested tensors come from."""
