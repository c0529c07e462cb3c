"""Views of programs: the evaluation trace as a table, graphs as pictures. Views only read."""
