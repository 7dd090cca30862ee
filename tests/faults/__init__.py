"""Daemons that die at a chosen await, and the story through which they are led."""
