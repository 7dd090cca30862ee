"""Hostile inputs by the million, counted."""
