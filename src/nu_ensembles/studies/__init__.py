"""Declared experiments: what is compared, on which seeds, and what came out."""
