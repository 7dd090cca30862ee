"""Programs for the lab's containers to run: `python3 -m played NAME [ARGS]`; stdlib only.

Each module but `fx_race` is one program. None needs torch or a GPU.
"""
