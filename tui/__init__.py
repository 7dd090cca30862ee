"""The dashboard: a client of the daemon and nothing else.

    source (live: the daemon, replay: a file) -> app -> screens -> widgets
                                      rows: what is shown, made without Textual

It must not reach a host, the store or the inventory, and changes nothing but through the daemon.
"""
