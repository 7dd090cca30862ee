"""Measurements of the trainer that need a GPU."""
