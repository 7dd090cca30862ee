"""The race on purpose: drafters as threads of one process, and what was tried against it.

Imported only by `--layout threads-naive`. torch.compile keeps process-wide state while it
traces: a flag that says "FX is tracing", the patched nn.Module.__call__, and more. A
thread that calls an already compiled function while another one traces dies with

    Detected that you are using FX to symbolically trace a dynamo-optimized function.

The cure is one process for each drafter (the default layout); what is here shows the
disease, and is measured in docs/lab-notes.md.

    naive       the layout that crashes, and its remedies
    flag        the thread-local-flag remedy: a stop-gap
    reproduce   the crash in seconds on a CPU, every time
"""
