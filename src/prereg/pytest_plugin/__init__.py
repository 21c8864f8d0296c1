"""The pytest plugin: options, the `study` fixture, honest accounting, the verdict table. It decides nothing.

A *gate* is a test that takes the `study` fixture. What a gate's outcome means:

============================  =======================================================================
supported                     passed
refuted, inconclusive         failed, with the interval and what was promised instead of a traceback
invalid                       failed: a control failed or the data are degenerate, so nothing was shown
green without being asked     failed: a gate may not pass unless a verdict was asked and is supported
anything else                 reported as not tested
============================  =======================================================================
"""

from __future__ import annotations

import pytest

from prereg.pytest_plugin.gates import (
    pytest_collection_modifyitems,
    pytest_generate_tests,
    pytest_report_teststatus,
    pytest_runtest_makereport,
    study,
)
from prereg.pytest_plugin.session import Accounting
from prereg.pytest_plugin.state import DEFAULT_MODEL, STUDIES

__all__ = [
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_report_teststatus",
    "pytest_runtest_makereport",
    "study",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the group of options that `pytest --help` shows under "prereg"."""
    group = parser.getgroup("prereg", "prereg: a pre-registered study as a test suite")
    group.addoption(
        "--model",
        action="append",
        default=None,
        metavar="NAME",
        help="model to ask: an alias (`prereg models` lists them), a hub id (org/name[@revision]) or a folder; "
        f"repeat it for several models [default: {DEFAULT_MODEL}]",
    )
    group.addoption(
        "--study",
        metavar="DIR",
        default=None,
        help="folder with the protocol.toml that gates answer to [default: the nearest one above each gate]",
    )
    group.addoption(
        "--cache-dir",
        metavar="DIR",
        default=None,
        help="where models and activations are kept [default: $PREREG_CACHE, else the user's cache folder]",
    )
    group.addoption("--device", default="cpu", help="torch device for capture: cpu, cuda, mps [default: cpu]")
    group.addoption(
        "--dtype",
        default="float32",
        choices=["float32"],
        help="precision of the forward pass; evidence is float32 [default: float32]",
    )
    group.addoption("--offline", action="store_true", help="never ask the network for a model")
    group.addoption(
        "--engine",
        default="loky",
        help="joblib backend that spreads measurements: loky, threading, dask, ray",
    )
    group.addoption(
        "--jobs",
        type=int,
        default=None,
        metavar="N",
        help="worker processes for measurements [default: one for each core]",
    )
    group.addoption(
        "--gate-exit",
        choices=["claims", "harness"],
        default="claims",
        help="what the exit code speaks of: `claims` fails unless every gate is supported; `harness` fails only "
        "when a gate could not be answered (for CI that publishes verdicts) [default: claims]",
    )
    group.addoption(
        "--report-dir",
        metavar="DIR",
        default=None,
        help="where evidence, tables and verdicts.json are written [default: reports/ beside pyproject.toml]",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the session's own memory."""
    config.stash[STUDIES] = {}
    config.pluginmanager.register(Accounting(config), "prereg-accounting")
