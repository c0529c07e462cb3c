"""The textbook: every op with its one declaration. Imports only `core`."""
