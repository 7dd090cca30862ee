"""The composition root: builds every stage, hands each what it needs, and answers the API.

main.py         lock, logging, signals, start and end
environment.py  values of secrets and sink addresses, in memory only
board.py        the newest view of everything, with a cursor for `what changed since`
views.py        stored values -> the API's documents
fleet.py        one link for each target, its GPUs, its state
crew.py         one supervisor for each run that lives
operations.py   deploy, run, stop, rollback: what a person asks for, step by step
queries.py      what a person reads
backend.py      the API's questions to the files above
doctor.py       everything checked, each with its remedy
"""
