"""What tests of packages take from the inside of ``torch.testing``."""
