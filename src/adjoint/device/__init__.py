"""Arrays and memory on a GPU, through CuPy: the part that eager operations and compiled programs share."""
