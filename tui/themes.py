"""The dashboard's looks: dark, light, and one that tells everything without colour."""

from textual.theme import Theme

DARK = Theme(
    name="orch-dark",
    primary="#5aa9e6",
    secondary="#7f8c9b",
    accent="#6fc3df",
    foreground="#e4e7eb",
    background="#11151a",
    surface="#1a2027",
    panel="#232b34",
    success="#6ccf8e",
    warning="#e6b450",
    error="#ef6b73",
    dark=True,
    variables={"quiet": "#8d98a5"},
)
LIGHT = Theme(
    name="orch-light",
    primary="#1f6fb2",
    secondary="#5b6773",
    accent="#0b7285",
    foreground="#1d232a",
    background="#fbfcfd",
    surface="#eef1f4",
    panel="#dfe4e9",
    success="#1e7d43",
    warning="#8f5d00",
    error="#b3202c",
    dark=False,
    variables={"quiet": "#5c6772"},
)
PLAIN = Theme(
    name="orch-plain",
    primary="#808080",
    secondary="#808080",
    accent="#d0d0d0",
    foreground="#e0e0e0",
    background="#000000",
    surface="#1c1c1c",
    panel="#262626",
    success="#e0e0e0",
    warning="#e0e0e0",
    error="#ffffff",
    dark=True,
    variables={"quiet": "#9a9a9a"},
)
THEMES = (DARK, LIGHT, PLAIN)
