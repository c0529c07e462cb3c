"""Interpreters that compute: forward mode (dual), reverse mode (tape), batches."""
