"""What runs around native code: entry points, threads, memory, caches, signals."""
