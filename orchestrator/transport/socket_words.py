"""An operating system's error of a connection -> the words that a sentence can end with.

Owns the wording alone; who raises says where and the remedy.
"""

import os
import socket


def in_words(error: OSError) -> str:
    """Why no connection came about, without numbers or addresses of the library's own."""
    match error:
        case socket.gaierror(errno=socket.EAI_AGAIN):
            return "no name server answers here"
        case socket.gaierror():
            return "its name is not known here"
        case ConnectionRefusedError():
            return "nothing listens there (connection refused)"
        case TimeoutError():
            return "no answer in time"
        case OSError(errno=int(number)):
            words = os.strerror(number)
            return words[:1].lower() + words[1:]
        case _:
            return str(error) or type(error).__name__
