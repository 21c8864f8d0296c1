"""The pytest plugin: options, the `study` fixture, honest accounting, the verdict table. It decides nothing.

A *gate* is a test that takes the `study` fixture, or one in a study's folder that is named after a hypothesis. What a
gate's outcome means:

==========================================  =========================================================================
supported                                   passed, where the study is registered and the hypothesis was promised
unregistered, unverified, exploratory       skipped: the interval says supported, but nothing may be claimed
refuted, inconclusive                       failed, with the interval and what was promised instead of a traceback
invalid                                     failed: a control failed, the data are degenerate, or the gate or prereg
                                            itself was bent, so nothing was shown
tampered                                    failed: what is here contradicts the registration
green without being asked                   failed: a gate may not pass unless a verdict was asked
anything else                               reported as not tested
==========================================  =========================================================================

At the session's end each answer is made again from the evidence by a study that is opened afresh; tables are written
only if every hypothesis was asked and nothing was refused. `--runxfail` is harmless here: an answer that was asked for
stands, expected to fail or not. What can't be told from inside is a process that ends itself (``os._exit``): its exit
code is its own. Run gates with ``-n 1`` where that matters; a worker that ends itself fails the session.
"""

from __future__ import annotations

import sys

import pytest

from prereg.pytest_plugin.gates import (
    pytest_collection_finish,
    pytest_deselected,
    pytest_generate_tests,
    pytest_itemcollected,
    pytest_report_teststatus,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    study,
)
from prereg.pytest_plugin.ledger import Ledger
from prereg.pytest_plugin.refusals import blocked
from prereg.pytest_plugin.session import Accounting, Seal
from prereg.pytest_plugin.state import DEFAULT_MODEL, INTEGRITY, LEDGER, PLUGINS, STUDIES
from prereg.pytest_plugin.tamper import Integrity

__all__ = [
    "pytest_addoption",
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_deselected",
    "pytest_generate_tests",
    "pytest_itemcollected",
    "pytest_report_teststatus",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
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
        help="what spreads measurements: loky, threading, or a cluster's dask, ray",
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


ACCOUNTING, SEAL = "prereg-accounting", "prereg-seal"


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the session's own memory.

    Raises
    ------
    pytest.UsageError
        If a part of the plugin is blocked.
    """
    refused = blocked(config, (ACCOUNTING, SEAL))
    if refused is not None:
        raise pytest.UsageError(refused)
    config.stash[STUDIES] = {}
    config.stash[LEDGER] = Ledger()
    config.stash[INTEGRITY] = Integrity()
    plugins: dict[str, object] = {"prereg": sys.modules[__name__]}
    accounting = Accounting(config)
    plugins |= {ACCOUNTING: accounting, SEAL: Seal(accounting)}
    for name in (ACCOUNTING, SEAL):
        config.pluginmanager.register(plugins[name], name)
    config.stash[PLUGINS] = plugins
