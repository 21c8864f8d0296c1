"""One question to the world in a process of its own, so that `prereg doctor` can stop waiting: `hub` or `device`.

Run as ``python -m prereg.cli.probe QUESTION``; prints one line, exits with 0 where the answer is good.
"""

from __future__ import annotations

import sys
from pathlib import Path

from prereg.errors import PreregError

__all__ = ["main"]


def main(question: str, cache: str = "") -> int:
    """Answer one question; return the exit code.

    Parameters
    ----------
    question
        ``device``: which torch devices work. ``hub``: whether the model hub answers for a model of the registry.
    cache
        The cache folder, for ``hub``.
    """
    try:
        said = _devices() if question == "device" else _hub(Path(cache))
    except PreregError as error:
        said, code = error.message, 1
    except ImportError as error:
        said, code = f"{error.name} is not installed", 1
    else:
        code = 0
    sys.stdout.write(" ".join(said.split()) + "\n")
    return code


def _devices() -> str:
    from prereg.activations.models.devices import working_devices

    return ", ".join(working_devices())


def _hub(cache: Path) -> str:
    from prereg.activations.models import load_registry
    from prereg.activations.models.entries import HubSource
    from prereg.activations.models.hub import ask_hub
    from prereg.errors import ModelUnavailable

    for entry in load_registry().entries:
        if isinstance(entry.source, HubSource):
            found = ask_hub(entry.source, cache)
            return f"answers; {entry.alias} has {len(found.files)} files there"
    raise ModelUnavailable("no model of the registry comes from a hub")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
