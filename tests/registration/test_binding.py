"""Which evidence may carry a registration's root, and why not where it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from prereg.protocol import read_protocol
from prereg.registration import binding as module
from prereg.registration.binding import Binding
from prereg.registration.chain import read_chain
from prereg.registration.components import library_versions
from tests.frozen import added, edit, frozen
from tests.synthetic import prepared


def bound(root: Path) -> Binding:
    folder = root / "gates" / "sample"
    chain = read_chain(folder)
    assert chain is not None
    return Binding(chain, read_protocol(folder), root)


def revision(root: Path) -> str:
    return prepared(root).models["pythia-tiny"]


def test_a_registered_model_measured_as_registered_is_stamped(tmp_path: Path) -> None:
    """With the root in force."""
    frozen(tmp_path)
    found = bound(tmp_path)
    assert found.obstacles("pythia-tiny", revision(tmp_path)) == ()
    assert found.stamp("pythia-tiny", revision(tmp_path)) == found.chain.registration.root == found.origin
    assert found.accepted == (found.origin,)


def test_amended_the_last_root_is_stamped_and_all_are_accepted(tmp_path: Path) -> None:
    """Activations stay those of the freeze."""
    folder = frozen(tmp_path)
    first = bound(tmp_path).origin
    edit(folder / "protocol.toml", "threshold = 0.1\n", "threshold = 0.2\n")
    last = added(tmp_path, "H1").root
    found = bound(tmp_path)
    assert (found.origin, found.accepted) == (first, (first, last))
    assert found.stamp("pythia-tiny", revision(tmp_path)) == last


@pytest.mark.parametrize(
    ("alias", "at", "says"),
    [
        ("unheard-of", "main", "the model unheard-of is not registered"),
        ("pythia-tiny", "another", "pythia-tiny is at revision another, registered is"),
        ("pythia-tiny", None, "pythia-tiny is at revision unknown, registered is"),
    ],
)
def test_another_model_is_an_obstacle(tmp_path: Path, alias: str, at: str | None, says: str) -> None:
    """By name, or by revision: both are told."""
    frozen(tmp_path)
    [reason] = bound(tmp_path).obstacles(alias, at)
    assert reason.startswith(says)
    assert bound(tmp_path).stamp(alias, at) is None


@pytest.mark.parametrize("version", ["9.9.9", None])
def test_another_library_is_an_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    """Another version, or none at all; a build for another machine is none."""
    frozen(tmp_path)
    wanted = library_versions()["torch"]
    versions = {k: v for k, v in library_versions().items() if k != "torch"} | (
        {"torch": version} if version else {}
    )
    monkeypatch.setattr(module, "library_versions", lambda: versions)
    [reason] = bound(tmp_path).obstacles("pythia-tiny", revision(tmp_path))
    assert reason == f"torch is {version or 'not installed'}, registered is {wanted}"


def test_an_edited_promise_is_an_obstacle(tmp_path: Path) -> None:
    """Evidence measured meanwhile doesn't carry the root, whatever is put back later."""
    folder = frozen(tmp_path)
    edit(folder / "protocol.toml", "threshold = 0.1\n", "threshold = 0.2\n")
    [reason] = bound(tmp_path).obstacles("pythia-tiny", revision(tmp_path))
    assert reason == "hypotheses.H1.threshold: 0.1 -> 0.2, stricter"


def test_an_edited_gate_is_an_obstacle(tmp_path: Path) -> None:
    """Named, and nothing in the name that a terminal would obey."""
    folder = frozen(tmp_path)
    (folder / "x\x1b[2J.py").write_text("")
    [reason] = bound(tmp_path).obstacles("pythia-tiny", revision(tmp_path))
    assert reason.endswith(".py is not the registered one")
    assert reason.isprintable()


def test_every_obstacle_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise, gates, model and library at once."""
    folder = frozen(tmp_path)
    edit(folder / "protocol.toml", "threshold = 0.1\n", "threshold = 0.2\n")
    (folder / "helper.py").write_text("")
    monkeypatch.setattr(module, "library_versions", lambda: library_versions() | {"numpy": "0.1"})
    found = " ".join(bound(tmp_path).obstacles("unheard-of", None))
    for part in ("hypotheses.H1.threshold", "helper.py", "unheard-of", "numpy is 0.1"):
        assert part in found
