"""What a worker does with a call, and what it compares before.

A worker computes with what *it* has installed, which the evidence would not show. So each call says what it was meant
for: Python, numpy, scipy and torch by version, this package and the task's own by their source. A worker that has
another one refuses.
"""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import socket
import threading
import traceback
from collections.abc import Collection, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from prereg.errors import PreregError

__all__ = ["Call", "opened", "packages", "surroundings", "work"]

Call = tuple[Mapping[str, str], bytes]
"""What a worker must have, and what it is to run."""

_ALIKE = ("numpy", "scipy", "torch")

_ONE_AT_A_TIME = threading.Lock()
"""How many threads BLAS may use is the process' setting: two tasks side by side would undo each other's."""


def packages(modules: Collection[str]) -> tuple[str, ...]:
    """Return the top-level packages that a worker imports by name; what cloudpickle sends by value needs none."""
    from cloudpickle import list_registry_pickle_by_value

    by_name = set(modules) - set(list_registry_pickle_by_value()) - {"__main__"}
    return tuple(sorted({"prereg", *(name.split(".")[0] for name in by_name)}))


def work(wanted: Mapping[str, str], call: bytes) -> bytes:
    """Do one call, and return how it went: an error of the call's own is an answer, and no failure of the cluster's."""
    from cloudpickle import dumps

    try:
        answer: bytes = dumps(_done(wanted, call))
    except BaseException as error:
        error.add_note("in a worker of the cluster:\n" + traceback.format_exc())
        return _error(error)
    return answer


def _done(wanted: Mapping[str, str], call: bytes) -> object:
    from cloudpickle import loads
    from threadpoolctl import threadpool_limits

    found = surroundings(tuple(name.split()[-1] for name in wanted if name.startswith("source of")))
    other = [
        f"{name}: {found[name]}, wanted {value}" for name, value in wanted.items() if found[name] != value
    ]
    if other:
        raise PreregError(
            f"a worker on {socket.gethostname()} has other code than this process ({'; '.join(other)})",
            remedy="install the same versions on every worker, and start the workers again",
        )
    function = loads(call)  # what the client's own process has just written; no file
    with _ONE_AT_A_TIME, threadpool_limits(limits=1):
        return function()


def _error(error: BaseException) -> bytes:
    """Return an error's bytes; one that doesn't survive the way is told in words."""
    from cloudpickle import dumps, loads

    try:
        answer: bytes = dumps(_Raised(error))
        loads(answer)
    except Exception:
        answer = dumps(_Raised(PreregError(f"a task failed on a worker: {type(error).__name__}: {error}")))
    return answer


class _Raised:
    """What a call raised."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def surroundings(packages: Collection[str]) -> dict[str, str]:
    """Return what a number may hang on."""
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for library in _ALIKE:
        try:
            # Builds for another device are told apart by a suffix; the release is what counts here.
            found[library] = version(library).partition("+")[0]
        except PackageNotFoundError:
            found[library] = "absent"
    return found | {f"source of {name}": _source(name) for name in packages}


@cache
def _source(top: str) -> str:
    """Return the start of the digest of a package's or a module's source."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return "absent"
    if spec.submodule_search_locations is None:
        texts = {top: Path(spec.origin)} if spec.origin and Path(spec.origin).is_file() else {}
    else:
        folders = [Path(place) for place in spec.submodule_search_locations]
        texts = {f.relative_to(folder).as_posix(): f for folder in folders for f in folder.rglob("*.py")}
    whole = hashlib.sha256()
    for name, file in sorted(texts.items()):
        text = file.read_bytes().replace(b"\r\n", b"\n")
        whole.update(f"{name} {hashlib.sha256(text).hexdigest()}\n".encode())
    return whole.hexdigest()[:16]


def opened(answer: bytes) -> Any:
    """Return what a call returned, or raise what it raised."""
    from cloudpickle import loads

    result = loads(answer)  # from a worker, which runs this study's code: it is trusted as this process is
    if isinstance(result, _Raised):
        raise result.error
    return result
