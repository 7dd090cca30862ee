"""NVIDIA's Xid numbers: whose fault each is, in a few words.

Owns the table, after NVIDIA's catalogue of Xid errors. 13, 31 and 43 are a program's own faults
and are never called hardware.
"""

from collections.abc import Mapping
from enum import StrEnum


class XidClass(StrEnum):
    """Whose fault an Xid is."""

    APPLICATION = "application"
    """A program did what it must not; the card is well."""
    GPU = "gpu"
    """The card, its memory or its firmware."""
    MACHINE = "machine"
    """What the card is connected by: bus, power, NVLink, driver."""
    UNKNOWN = "unknown"


XIDS: Mapping[int, tuple[XidClass, str]] = {
    8: (XidClass.APPLICATION, "a kernel ran into the time limit"),
    13: (XidClass.APPLICATION, "a kernel accessed what it must not (graphics engine exception)"),
    31: (XidClass.APPLICATION, "a kernel accessed memory that is not its own (MMU fault)"),
    32: (XidClass.APPLICATION, "an invalid or damaged command stream"),
    38: (XidClass.MACHINE, "the driver's firmware failed"),
    43: (XidClass.APPLICATION, "a program's channel was reset after its own fault"),
    45: (XidClass.APPLICATION, "a program's channels were torn down as it ended"),
    48: (XidClass.GPU, "a double-bit ECC error of the card's memory"),
    61: (XidClass.GPU, "the card's microcontroller stopped at a breakpoint or warning"),
    62: (XidClass.GPU, "the card's microcontroller halted"),
    63: (XidClass.GPU, "a memory row or page is to be replaced at the next reset"),
    64: (XidClass.GPU, "a memory row or page could not be replaced"),
    68: (XidClass.APPLICATION, "the video decoder faulted"),
    69: (XidClass.APPLICATION, "a graphics engine class error"),
    74: (XidClass.MACHINE, "an NVLink error"),
    79: (XidClass.MACHINE, "the card has fallen off the bus"),
    92: (XidClass.GPU, "many single-bit ECC errors"),
    94: (XidClass.GPU, "a contained ECC error: the program that met it must restart"),
    95: (XidClass.GPU, "an uncontained ECC error: every program on the card is affected"),
    109: (XidClass.APPLICATION, "a context switch took too long"),
    110: (XidClass.MACHINE, "a security fault of the card's firmware"),
    119: (XidClass.GPU, "the card's firmware (GSP) does not answer"),
    120: (XidClass.GPU, "the card's firmware (GSP) failed"),
    123: (XidClass.GPU, "the card's power controller failed"),
    137: (XidClass.APPLICATION, "an NVLink access of a program to memory that is not mapped"),
    140: (XidClass.GPU, "an uncorrected ECC error"),
    143: (XidClass.GPU, "the card could not be initialised"),
    145: (XidClass.MACHINE, "an NVLink error (RLW)"),
    149: (XidClass.MACHINE, "an NVLink error (NETIR)"),
    154: (XidClass.GPU, "the driver asks for a recovery: a reset or a reboot"),
}


LOG_ONLY = frozenset({63, 92})
"""NVIDIA's advice for these is to note them: the program that met one goes on."""


def xid_class(number: int) -> XidClass:
    """Whose fault it is."""
    return XIDS[number][0] if number in XIDS else XidClass.UNKNOWN


def xid_meaning(number: int) -> str:
    """What it says, in a few words."""
    return XIDS[number][1] if number in XIDS else "not in our table; look it up"


def xid_title(number: int) -> str:
    """The title of its finding: the same whoever tells of it, and in whatever words."""
    return xid_meaning(79) if number == 79 else f"Xid {number}: {xid_meaning(number)}"
