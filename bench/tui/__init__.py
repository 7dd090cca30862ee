"""What the dashboard costs: first paint, a key to its paint, CPU, memory, a log of 5 GB."""
