"""How an op of the probe fails; `type` names the exception that the daemon raises for it."""


class OpError(Exception):
    """An op that failed on purpose; `remedy` is a sentence a person can act on."""

    def __init__(self, type: str, message: str, remedy: str | None = None) -> None:  # noqa: A002  the word of the wire
        super().__init__(message)
        self.type = type
        self.message = message
        self.remedy = remedy


class Refused(OpError):
    """Something here does not allow it; nothing was changed."""

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(type(self).__name__, message, remedy)


class BadCall(OpError):
    """A call whose op or arguments make no sense."""

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(type(self).__name__, message, remedy)
