"""autograd.scipy: special, linalg, stats, signal and integrate."""
