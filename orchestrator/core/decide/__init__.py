"""State + event + policy + now -> decision: `lifecycle.decide` is the way in."""
