"""The vocabulary: types, ops, traced values, trees of arrays, errors. Imports nothing of ours."""
