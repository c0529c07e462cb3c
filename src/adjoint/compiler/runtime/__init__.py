"""The runtime of native code: entry points, threads, memory, caches, signals."""
