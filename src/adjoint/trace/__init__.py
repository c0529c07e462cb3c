"""The interpreters: forward (dual), reverse (tape), batched (batch)."""
