"""The command line: thin, and light until a command really runs."""

from __future__ import annotations

from prereg.cli.commands import app, main

__all__ = ["app", "main"]
