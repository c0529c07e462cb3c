"""Arrays and memory on a card, through CuPy: what eager operations and compiled programs both use of it."""
