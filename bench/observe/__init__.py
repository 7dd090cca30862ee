"""Figures of observation, each reproducible with one command."""
