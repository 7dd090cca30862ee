"""YAML bytes -> Inventory, or every problem at once with its line, key and nearest valid word.

Owns the shape of `inventory.yaml` and its JSON Schema. Reads no file and no environment: the caller
gives the bytes, the home folder and a way to ask whether a folder is there.

    document.py   bytes -> plain values that remember their lines
    shape.py      which keys and values there are (pydantic); the schema comes from it
    problems.py   a refused value -> one sentence
    names.py      what one part says of another: names, runtimes, sessions, folders
    matches.py    which labels alerts have, and which values these can have
    nearest.py    a word that is not known -> the one that was meant
    build.py      checked values -> the frozen nouns of core.model

Who only wants units.py must not load the shape: pydantic and YAML are 13 MB.
"""
