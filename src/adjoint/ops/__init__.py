"""The op table: one declaration per op, with its derivative. Imports only `core`."""
