"""Widgets: they are shown parts of the fleet and post messages; none knows a screen or the app."""
