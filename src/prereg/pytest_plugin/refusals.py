"""Ways of running gates that could turn an answer into another one: refused before anything runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

__all__ = ["blocked", "foreign_study", "hooks_removed", "is_worker", "rerun_marks", "session_refusals"]

# Option and ini names by which pytest-rerunfailures, flaky and pytest-retry run a failed test again.
_RERUN_OPTIONS = {
    "reruns": "--reruns",
    "force_reruns": "--force-reruns",
    "force_flaky": "--force-flaky",
    "retries": "--retries",
}
_RERUN_INI = ("reruns", "retries")


def blocked(config: pytest.Config, names: tuple[str, ...]) -> str | None:
    """Say which of the plugin's own parts was blocked on the command line or in a configuration; None if none was."""
    found = [name for name in names if config.pluginmanager.is_blocked(name)]
    if not found:
        return None
    return (
        f"{', '.join(found)} is blocked (-p no:{found[0]}): without it a gate could pass unasked. "
        f"Run without that option; `-p no:prereg` switches the whole plugin off, gates and all."
    )


def session_refusals(config: pytest.Config) -> list[str]:
    """Say why gates may not be asked in this session; empty where they may."""
    found = []
    if sys.flags.optimize:
        found.append(
            "python -O (PYTHONOPTIMIZE) removes every `assert`, those of the gates as well. "
            "Run again without it: python -m pytest"
        )
    active = [option for name, option in _RERUN_OPTIONS.items() if _number(config.getoption(name, None))]
    active += [f"{name} in the configuration" for name in _RERUN_INI if _number(_ini(config, name))]
    if active:
        found.append(
            f"{active[0]} runs a failed gate again until it passes; the same evidence gives the same verdict. "
            f"Run gates without it, and other tests in a session of their own."
        )
    return found


def _ini(config: pytest.Config, name: str) -> object:
    try:
        return config.getini(name)
    except (KeyError, ValueError):
        return None


def _number(value: object) -> bool:
    """Tell whether an option asks for anything: 0, "0", "" and False don't."""
    return bool(value) and str(value).strip() not in ("", "0", "False", "false")


def rerun_marks(item: pytest.Item) -> str | None:
    """Say which mark or decorator would run a gate again; None where none would."""
    mark = item.get_closest_marker("flaky")
    decorated = any(
        str(name).startswith("_flaky_") for name in getattr(getattr(item, "obj", None), "__dict__", ())
    )
    if mark is None and not decorated:
        return None
    return (
        f"{item.nodeid} is marked flaky: it would run again until it passes. The same evidence gives the same verdict; "
        "remove the mark."
    )


def foreign_study(item: pytest.Item, own: Any) -> str | None:
    """Say which `study` fixture is visible to an item and is not prereg's; None where all are.

    Visible, not only used: `request.getfixturevalue("study")` finds it when the gate runs.
    """
    info = getattr(item, "_fixtureinfo", None)
    used = () if info is None else info.name2fixturedefs.get("study", ())
    visible = item.session._fixturemanager.getfixturedefs("study", item) or ()
    for definition in (*used, *visible):
        function = definition.func
        if function is not own:
            origin = getattr(function, "__module__", "?")
            return (
                f"{item.nodeid}: its `study` fixture is defined in {origin}, not in prereg: "
                "a verdict from there would mean nothing. Rename that fixture."
            )
    return None


def hooks_removed(config: pytest.Config, plugins: dict[str, object]) -> Iterator[str]:
    """Yield what of the plugin's own hooks is no longer called.

    Parameters
    ----------
    config
        The session's.
    plugins
        Name -> module or object that was registered.
    """
    manager = config.pluginmanager
    for name, plugin in plugins.items():
        if not manager.is_registered(plugin):
            yield f"the plugin {name} was unregistered while the session ran"
            continue
        wanted = {n: getattr(plugin, n) for n in dir(plugin) if n.startswith("pytest_")}
        for hook, function in wanted.items():
            caller = getattr(config.hook, hook, None)
            if caller is None:  # a hook of a plugin that is not installed
                continue
            called = [impl.function for impl in caller.get_hookimpls() if impl.plugin is plugin]
            if called != [function]:
                yield f"{name}: its {hook} is no longer called"


def is_worker(config: pytest.Config) -> bool:
    """Tell whether this process is one of xdist's workers."""
    return hasattr(config, "workerinput")
