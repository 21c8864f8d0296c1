"""What `prereg doctor` asks of the machine: extras, folders, network, device. torch is never imported here."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from prereg.cli.told import size

__all__ = [
    "Check",
    "State",
    "cache_check",
    "device_check",
    "extra_checks",
    "git_check",
    "hub_check",
    "index_check",
    "missing_of",
    "python_check",
    "writable",
]

State = Literal["ok", "note", "missing"]
"""``ok``: there. ``note``: not there, or not asked; may never matter. ``missing``: something needs it."""

# What a user may install; `dev` is for those who change prereg itself.
EXTRAS = {
    "capture": "to capture and measure",
    "receipts": "to verify receipts of somebody else's clock",
    "report": "to draw figures, the page and the badge",
    "mlflow": "to log verdicts to MLflow",
    "wandb": "to log verdicts to Weights & Biases",
}
_NAMES = ("prereg-gates", "prereg")
"""What the distribution is called; the second, in environments that were made before it had the first."""
_EXTRA = re.compile(r"""^([A-Za-z0-9._-]+).*;.*\bextra\s*==\s*['"]([a-z0-9-]+)['"]""")

LONG = 10.0
"""Seconds that a network is given to answer."""
LOADING = 120.0
"""Seconds that torch is given to load and look for devices."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor's.

    Parameters
    ----------
    name
        What was looked at.
    state
        How it stands.
    words
        What was found.
    next
        The next command, or None.
    """

    name: str
    state: State
    words: str
    next: str | None = None


def python_check() -> Check:
    """Return which Python and which prereg run here."""
    system = f"{platform.system()} {platform.machine()}"
    return Check("python", "ok", f"{platform.python_version()}, prereg {_own_version()}, {system}")


def missing_of(extra: str) -> tuple[str, ...]:
    """Return the packages of an extra that are not installed, by what is installed, importing nothing."""
    needed = _needs(extra)
    if not needed:
        # Nothing lists its packages, so nothing shows that they are there.
        return (f"prereg-gates[{extra}]",)
    return tuple(name for name in needed if _version(name) is None)


def extra_checks() -> list[Check]:
    """Return one line for each extra that a user may want."""
    found = []
    for extra, use in EXTRAS.items():
        needed, lacking = _needs(extra), missing_of(extra)
        name = f"extra {extra}"
        if not needed:
            continue  # this version of the package has no such extra
        if lacking:
            words = f"not whole: {', '.join(lacking)} not installed; wanted {use}"
            found.append(Check(name, "note", words, f"pip install 'prereg-gates[{extra}]'"))
        else:
            shown = "torch" if "torch" in needed else needed[0]
            found.append(Check(name, "ok", f"{len(needed)} packages, {shown} {_version(shown)}"))
    return found


def analyses_check() -> Check:
    """Return what a study can ask with: this package's analyses, and those of installed packages."""
    from prereg.analysis.catalogue import ANALYSES
    from prereg.analysis.own import installed_analyses

    others = [f"{name} of {distribution}" for name, distribution in installed_analyses().items()]
    return Check("analyses", "ok", ", ".join([*ANALYSES, *others]))


def git_check(root: Path) -> Check:
    """Return whether the history that a registration is read from can be seen."""
    if shutil.which("git") is None:
        words = "git is not installed: no registration can be shown to come before its data"
        return Check("git", "missing", words, "install git")
    said = _run(["git", "-C", str(root), "rev-parse", "--is-shallow-repository"], 30.0)
    if said is None or said.returncode != 0:
        return Check("git", "note", f"{root} is in no repository: nothing can be registered", "git init")
    if said.stdout.strip() != "false":
        words = "a shallow clone: a registration can't be verified here"
        return Check("git", "note", words, "git fetch --unshallow")
    return Check("git", "ok", "the whole history is here")


def cache_check(cache: Path) -> Check:
    """Return what lies in the cache, and whether there is room to write."""
    from prereg.activations.models.progress import size_on_disk
    from prereg.activations.store import list_stores

    elsewhere = "--cache-dir DIR, or PREREG_CACHE=DIR"
    if not writable(cache):
        what = "written" if _is_there(cache) else "made"
        return Check("cache", "missing", f"{cache} can't be {what}", elsewhere)
    free = shutil.disk_usage(_nearest(cache)).free
    if free == 0:
        return Check("cache", "missing", f"{cache}: its disk is full", f"free some space, or {elsewhere}")
    if not cache.is_dir():
        return Check("cache", "ok", f"{cache} will be made; {size(free)} free")
    stores = list_stores(cache / "stores")
    damaged = sum(store.trouble is not None for store in stores)
    words = f"{cache}: {size(size_on_disk(cache))}, {len(stores)} stores, {size(free)} free"
    if damaged:
        return Check("cache", "note", f"{words}; {damaged} damaged", "prereg cache verify")
    return Check("cache", "ok", words)


def writable(folder: Path) -> bool:
    """Tell whether a folder can be written, or made where it isn't there. Writes nothing."""
    try:
        nearest = _nearest(folder)
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            return False
        # Where nothing can ever lie, as in /proc, a superuser is told that everything may be written.
        return shutil.disk_usage(nearest).total > 0
    except OSError:
        return False


def _is_there(path: Path) -> bool:
    # A link that leads nowhere has its place too: no folder can be made there.
    return os.path.lexists(path)


def hub_check(cache: Path) -> Check:
    """Ask the model hub for one model's list of files, as a fetch would."""
    if _version("huggingface_hub") is None:
        return Check(
            "hub",
            "note",
            "not asked: huggingface_hub is not installed",
            "pip install 'prereg-gates[capture]'",
        )
    said = _probe("hub", str(cache), seconds=LONG)
    if said is None:
        return Check(
            "hub", "note", f"no answer within {LONG:.0f} s", "prereg doctor --offline, or set HF_ENDPOINT"
        )
    if said.returncode != 0:
        return Check("hub", "note", _last(said), "use a model that is here: prereg models")
    return Check("hub", "ok", _last(said))


def index_check(package: str | None) -> Check:
    """Ask the package index that pip uses for one package, as a fetch would."""
    if package is None:
        return Check("index", "note", "not asked: no model of the registry comes from a wheel")
    if _version("pip") is None:
        return Check("index", "note", "not asked: this environment has no pip", "python -m ensurepip")
    command = [sys.executable, "-m", "pip", "index", "versions", package, "--no-input"]
    command += ["--disable-pip-version-check", "--timeout", "3", "--retries", "0"]
    said = _run(command, LONG)
    if said is None:
        return Check("index", "note", f"no answer within {LONG:.0f} s", "pip config list")
    if said.returncode != 0:
        return Check("index", "note", f"pip can't find {package} there", "pip config list")
    return Check("index", "ok", f"pip finds {package} there")


def device_check(asked: bool) -> Check:
    """Say whether torch is there; only where asked, which devices it finds, in a process of its own."""
    version = _version("torch")
    if version is None:
        return Check("device", "note", "torch is not installed", "pip install 'prereg-gates[capture]'")
    if not asked:
        return Check("device", "note", f"not asked; torch {version} is installed", "prereg doctor --device")
    said = _probe("device", seconds=LOADING)
    if said is None or said.returncode != 0:
        why = f"no answer within {LOADING:.0f} s" if said is None else _last(said)
        return Check(
            "device",
            "missing",
            f"torch {version} can't be used: {why}",
            "pip install --force-reinstall torch",
        )
    return Check("device", "ok", f"{_last(said)}, by torch {version}")


def _needs(extra: str) -> list[str]:
    lines: list[str] = []
    for name in _NAMES:
        try:
            lines = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        break
    found = [_EXTRA.match(line) for line in lines]
    return [match[1] for match in found if match is not None and match[2] == extra]


def _own_version() -> str:
    return next((found for name in _NAMES if (found := _version(name)) is not None), "of no known version")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _nearest(folder: Path) -> Path:
    """Return the folder itself, or the nearest above it that is there."""
    folder = folder.absolute()
    return next(place for place in (folder, *folder.parents) if _is_there(place))


def _probe(*arguments: str, seconds: float) -> subprocess.CompletedProcess[str] | None:
    return _run([sys.executable, "-m", "prereg.cli.probe", *arguments], seconds)


def _run(command: list[str], seconds: float) -> subprocess.CompletedProcess[str] | None:
    """Run a command; None where it takes longer than it was given."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=seconds, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return None


def _last(said: subprocess.CompletedProcess[str]) -> str:
    """Return the last line that a process said."""
    from prereg.hostile import printable

    lines = (said.stdout.strip() or said.stderr.strip() or "no answer").splitlines()
    return printable(lines[-1])
