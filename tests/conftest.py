"""What all tests share."""

from __future__ import annotations

import signal

pytest_plugins = ["pytester"]

# A shell's background job starts with Ctrl-C ignored, and so would every run that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
