"""Arrays and memory on a GPU, through CuPy: what eager operations and compiled programs both use of it."""
