"""How much may be looked at of what comes faster than anybody reads: so many a second, some saved.

Owns the arithmetic alone. Times are seconds of any clock that only grows.
"""


class Allowance:
    """Grants `a_second` of something, and up to `most` at once after a pause."""

    def __init__(self, a_second: float, most: int) -> None:
        self._a_second, self._most = a_second, most
        self._left = float(most)
        self._at: float | None = None

    def take(self, wanted: int, now: float) -> int:
        """How many of the wanted ones are granted; they are spent."""
        gained = 0.0 if self._at is None else (now - self._at) * self._a_second
        self._at = now
        self._left = min(float(self._most), self._left + gained)
        granted = min(wanted, int(self._left))
        self._left -= granted
        return granted
