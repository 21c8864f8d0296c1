"""Evidence on its shelf: which answers, why the rest doesn't, and that registered evidence is never lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prereg.errors import EvidenceError
from prereg.evidence import Provenance, read_provenance
from prereg.pipeline import Pipeline
from prereg.pipeline.shelf import Shelf
from prereg.protocol import read_protocol
from prereg.registration import binding
from prereg.registration.components import library_versions
from tests.frozen import added, edit, frozen, opened, written
from tests.synthetic import commit, options, register, write

NAME = "kernels.model"
FITS = {"history_1": 0.5, "history_2": 0.5, "null": -0.01}


def pipeline(root: Path) -> Pipeline:
    return opened(root).pipeline


def measure(root: Path, registration: str | None) -> None:
    for arm in ("model", "twin-3"):
        write(root, arm, FITS, registration=registration)


def root_of(root: Path) -> str:
    found = opened(root).standing.root
    assert found is not None
    return found


def reseal(folder: Path, **changes: Any) -> None:
    """Rewrite a record as its author could: sealed again."""
    record = read_provenance(folder, NAME)
    assert record is not None
    changed = Provenance.model_validate(record.model_dump() | changes).sealed()
    (folder / f"{NAME}.json").write_text(changed.model_dump_json())


def test_evidence_under_the_registration_is_found(tmp_path: Path) -> None:
    """Whole, under its key and the root in force."""
    frozen(tmp_path)
    measure(tmp_path, root_of(tmp_path))
    assert pipeline(tmp_path).present("kernels", "model")


def test_evidence_from_before_the_freeze_is_not_accepted(tmp_path: Path) -> None:
    """It carries no registration; the reason says so, and names the one in force."""
    written(tmp_path)
    measure(tmp_path, None)
    commit(tmp_path, "A pilot")
    register(tmp_path, known="pilot", statement="A pilot of twenty prompts was seen.")
    commit(tmp_path, "Register")
    found = pipeline(tmp_path)
    assert not found.present("kernels", "model")
    assert found.why_absent("kernels", "model") == (
        f"{NAME}: measured under no registration, in force is {root_of(tmp_path)[:16]}"
    )


def test_evidence_under_another_registration_is_not_accepted(tmp_path: Path) -> None:
    """The reason names both digests."""
    frozen(tmp_path)
    measure(tmp_path, "f" * 64)
    found = pipeline(tmp_path)
    assert not found.present("kernels", "model")
    assert found.why_absent("kernels", "model") == (
        f"{NAME}: measured under registration {'f' * 16}, in force is {root_of(tmp_path)[:16]}"
    )


def test_evidence_under_another_key_is_not_accepted(tmp_path: Path) -> None:
    """The reason names both keys."""
    folder = frozen(tmp_path)
    measure(tmp_path, root_of(tmp_path))
    edit(folder / "protocol.toml", "orders = [1, 2]", "orders = [1, 3]")
    found = pipeline(tmp_path)
    record = read_provenance(found.evidence_folder, NAME)
    assert record is not None
    said = found.why_absent("kernels", "model")
    assert record.key[:12] in said
    assert found.key("kernels", "model")[:12] in said


def test_no_evidence_and_a_missing_table_are_told_apart(tmp_path: Path) -> None:
    """The one is to be measured, the other was lost."""
    frozen(tmp_path)
    found = pipeline(tmp_path)
    assert found.why_absent("kernels", "model") == f"{NAME}: no evidence yet"
    measure(tmp_path, root_of(tmp_path))
    (found.evidence_folder / f"{NAME}.draws.parquet").unlink()
    assert not found.present("kernels", "model")
    assert found.why_absent("kernels", "model") == f"{NAME}: a table is missing"


def test_evidence_of_an_earlier_link_is_accepted(tmp_path: Path) -> None:
    """An amended threshold asks for no new data."""
    folder = frozen(tmp_path)
    measure(tmp_path, root_of(tmp_path))
    edit(folder / "protocol.toml", "threshold = 0.1\n", "threshold = 0.2\n")
    added(tmp_path, "H1", known="full", statement="All that was measured was seen.")
    assert pipeline(tmp_path).present("kernels", "model")


def test_what_cannot_be_measured_as_registered_here_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another torch it is measured outside of the registration, once, and not again at each run."""
    frozen(tmp_path)
    measure(tmp_path, None)
    assert not pipeline(tmp_path).present("kernels", "model")
    versions = library_versions() | {"torch": "9.9.9"}
    monkeypatch.setattr(binding, "library_versions", lambda: versions)
    assert pipeline(tmp_path).present("kernels", "model")


def test_another_registrations_evidence_is_not_taken_even_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only evidence that claims no registration may stand in."""
    frozen(tmp_path)
    measure(tmp_path, "f" * 64)
    monkeypatch.setattr(binding, "library_versions", dict)
    assert not pipeline(tmp_path).present("kernels", "model")


def test_without_a_registration_any_is_accepted(tmp_path: Path) -> None:
    """There is nothing that it would have to carry."""
    written(tmp_path)
    measure(tmp_path, None)
    assert pipeline(tmp_path).present("kernels", "model")


# -- setting aside --------------------------------------------------------------------------------------------


def files(folder: Path) -> set[str]:
    return {str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()}


def test_registered_evidence_is_set_aside_and_found_again(tmp_path: Path) -> None:
    """Its tables and its record move; under its own key it still answers."""
    frozen(tmp_path)
    measure(tmp_path, root_of(tmp_path))
    found = pipeline(tmp_path)
    key, shelf = found.key("kernels", "model"), found.shelf
    before = {name for name in files(shelf.folder) if name.startswith(NAME)}
    shelf.set_aside(NAME, "another")
    assert {f"superseded/{key}/{name}" for name in before} <= files(shelf.folder)
    assert not before & files(shelf.folder)
    assert shelf.find(NAME, key, found.revision() or "") == shelf.folder / "superseded" / key
    assert shelf.find("kernels.twin-3", found.key("kernels", "twin-3"), "") == shelf.folder


@pytest.mark.parametrize("registered", [True, False])
def test_only_registered_evidence_of_another_key_is_set_aside(tmp_path: Path, registered: bool) -> None:
    """The same key is measured over; what carries no registration is nobody's promise."""
    frozen(tmp_path)
    measure(tmp_path, root_of(tmp_path) if registered else None)
    found = pipeline(tmp_path)
    before = files(found.shelf.folder)
    found.shelf.set_aside(NAME, found.key("kernels", "model") if registered else "another")
    assert files(found.shelf.folder) == before


def test_a_move_that_was_killed_is_taken_up_again(tmp_path: Path) -> None:
    """The record goes last, so it still leads to what wasn't moved yet."""
    frozen(tmp_path)
    measure(tmp_path, root_of(tmp_path))
    found = pipeline(tmp_path)
    key, shelf = found.key("kernels", "model"), found.shelf
    place = shelf.folder / "superseded" / key
    place.mkdir(parents=True)
    (shelf.folder / f"{NAME}.parquet").rename(place / f"{NAME}.parquet")
    shelf.set_aside(NAME, "another")
    assert shelf.find(NAME, key, "") == place


@pytest.mark.parametrize(
    "changes",
    [
        {"tables": {"../../../../pyproject.toml": "0"}},
        {"tables": {"/etc/hostname": "0"}},
        {"tables": {"..": "0"}},
        {"key": "../../../../gates"},
        {"key": ""},
        {"key": ".."},
    ],
)
def test_a_record_moves_nothing_out_of_its_folder(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Its author can seal any names into it; none of them leads out."""
    frozen(tmp_path)
    measure(tmp_path, root_of(tmp_path))
    found = pipeline(tmp_path)
    reseal(found.evidence_folder, **changes)
    before = files(tmp_path)
    with pytest.raises(EvidenceError, match="no name in its own folder"):
        found.shelf.set_aside(NAME, "another")
    assert files(tmp_path) == before


def test_an_edited_record_is_an_error_not_an_absence(tmp_path: Path) -> None:
    """Evidence that was tampered with is not quietly measured over."""
    frozen(tmp_path)
    measure(tmp_path, None)
    found = pipeline(tmp_path)
    edit(
        found.evidence_folder / f"{NAME}.json",
        '"registration": null',
        f'"registration": "{root_of(tmp_path)}"',
    )
    with pytest.raises(EvidenceError, match="was edited"):
        found.present("kernels", "model")


def test_a_shelf_without_a_folder_is_empty(tmp_path: Path) -> None:
    """Nothing is made by looking."""
    shelf = Shelf(tmp_path / "nowhere", None)
    assert shelf.find(NAME, "k", "") is None
    shelf.set_aside(NAME, "k")
    assert not (tmp_path / "nowhere").exists()


def test_the_key_is_free_of_promises(tmp_path: Path) -> None:
    """What is claimed is no part of what is measured."""
    folder = frozen(tmp_path)
    asked = Pipeline(read_protocol(folder), "pythia-tiny", options(tmp_path))
    before = asked.key("kernels", "model")
    edit(folder / "protocol.toml", "threshold = 0.1\n", "threshold = 0.2\n")
    edit(folder / "protocol.toml", "level = 0.95", "level = 0.9")
    assert Pipeline(read_protocol(folder), "pythia-tiny", options(tmp_path)).key("kernels", "model") == before
