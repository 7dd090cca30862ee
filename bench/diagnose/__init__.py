"""How fast and how sure diagnosis is: `python -m bench.diagnose`."""
