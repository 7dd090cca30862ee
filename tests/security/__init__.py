"""The threat model of docs/security.md, a test for each line of it."""
