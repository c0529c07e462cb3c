"""Types, ops, traced values, containers of arrays, errors. Imports no other package of adjoint."""
