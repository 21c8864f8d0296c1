"""What a figure was measured on, in one line beside it."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path


def machine(*libraries: str, threads: int = 1) -> str:
    """Return processor, cores, threads used, system, and the versions of Python and of `libraries`."""
    used = f"{threads} thread{'' if threads == 1 else 's'} used"
    parts = [f"{_processor()}; {os.cpu_count()} cores, {used}; {platform.system()}"]
    parts.append(f"python {platform.python_version()}")
    parts += [f"{library} {version(library)}" for library in libraries]
    return "; ".join(parts)


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
