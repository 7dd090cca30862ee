"""Screens: each lays out widgets and tells them what part of the fleet to show."""
