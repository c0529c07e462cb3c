"""The parts of the command line: what a command works on, what a terminal shows, completion for shells."""
