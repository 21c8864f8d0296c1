"""The hub: fetched whole or not at all, resumed, held to one commit, checked file by file."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from prereg.activations.models import (
    ModelEntry,
    Registry,
    encode,
    ensure,
    identity,
    load,
    presence,
    revision_of,
)
from prereg.activations.models.entries import HubSource
from prereg.errors import ModelError, ModelUnavailable
from tests.tiny_models import FAMILIES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.activations.models.hub_standin import HubStandIn

REPO = "some-org/tiny-model"
WEIGHTS = "model.safetensors"


class Counter:
    """A progress sink that remembers."""

    def __init__(self) -> None:
        self.total = 0
        self.labels: list[str] = []
        self.done = 0
        self.finished = 0

    def start(self, total: int, label: str) -> None:
        """Remember the total and what it counts."""
        self.total += total
        self.labels.append(label)

    def advance(self, n: int = 1) -> None:
        """Add up."""
        self.done += n

    def finish(self) -> None:
        """Count."""
        self.finished += 1


def entry(revision: str | None = None, repo: str = REPO) -> ModelEntry:
    """Ask for the repository, at a revision if wanted."""
    return ModelEntry(alias="tiny", source=HubSource(repo=repo, revision=revision))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_fetched_and_loads(
    family: str, hub: HubStandIn, checkpoints: dict[str, Path], cache: Path
) -> None:
    """A fetched model has its commit in its identity, and loads."""
    commit = hub.publish(REPO, checkpoints[family])
    local = ensure(entry(), cache, offline=False, progress=None)
    assert local.identity.revision == commit
    assert local.identity.source == f"hub:{REPO}"
    loaded = load(local)
    assert loaded.n_layers == 3
    assert encode(loaded, "abc")


def test_progress_counts_every_byte(hub: HubStandIn, checkpoints: dict[str, Path], cache: Path) -> None:
    """The bar's total is what is fetched, and it ends full."""
    hub.publish(REPO, checkpoints["gpt2"])
    sink = Counter()
    local = ensure(entry(), cache, offline=False, progress=sink)
    size = sum(p.stat().st_size for p in local.folder.iterdir() if p.name != "prereg.json")
    assert (sink.total, sink.done, sink.finished) == (size, size, 1)
    assert sink.labels == [f"fetch {REPO}"]


def test_only_files_that_make_the_model_are_fetched(
    hub: HubStandIn, checkpoints: dict[str, Path], cache: Path, tmp_path: Path
) -> None:
    """Pickles and code in a repository are never asked for."""
    folder = shutil.copytree(checkpoints["gpt2"], tmp_path / "more")
    for name in ("pytorch_model.bin", "modeling_tiny.py", "README.md", "training_args.pt"):
        (folder / name).write_bytes(b"not wanted")
    hub.publish(REPO, folder)
    local = ensure(entry(), cache, offline=False, progress=None)
    wanted = {"config.json", WEIGHTS, "tokenizer.json", "tokenizer_config.json", "prereg.json"}
    assert {p.name for p in local.folder.iterdir()} == wanted
    asked = {path.rpartition("/")[2] for _, path, _ in hub.requests if "/resolve/" in path}
    assert asked == wanted - {"prereg.json"}


def test_a_second_run_asks_nobody(hub: HubStandIn, checkpoints: dict[str, Path], cache: Path) -> None:
    """What is here is used without a request, online and offline alike."""
    hub.publish(REPO, checkpoints["gpt2"])
    first = ensure(entry(), cache, offline=False, progress=None)
    hub.requests.clear()
    assert ensure(entry(), cache, offline=False, progress=None) == first
    assert ensure(entry(), cache, offline=True, progress=None) == first
    assert identity(entry(), cache) == first.identity
    assert hub.requests == []


def test_offline_without_the_model_names_what_is_usable(
    hub: HubStandIn, checkpoints: dict[str, Path], cache: Path, few: Registry
) -> None:
    """Nothing is asked, and the error lists the models that are here."""
    hub.publish(REPO, checkpoints["gpt2"])
    with pytest.raises(ModelUnavailable, match=r"offline.*Usable now: tiny-gpt2\."):
        ensure(entry(), cache, offline=True, progress=None, registry=few)
    assert hub.requests == []


def test_the_hub_s_own_offline_switch_counts(
    hub: HubStandIn,
    checkpoints: dict[str, Path],
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HF_HUB_OFFLINE=1 means offline here too."""
    hub.publish(REPO, checkpoints["gpt2"])
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelUnavailable, match="offline"):
        ensure(entry(), cache, offline=False, progress=None)
    assert hub.requests == []


def test_no_network_names_what_is_usable(cache: Path, few: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub that can't be reached is an error of its own kind."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelUnavailable, match=r"can't be fetched.*Usable now: tiny-gpt2"):
        ensure(entry(), cache, offline=False, progress=None, registry=few)


def test_a_cut_connection_is_taken_up_again_within_a_run(
    hub: HubStandIn, checkpoints: dict[str, Path], cache: Path
) -> None:
    """After a cut the rest is asked for, not the whole, and the file is right."""
    hub.publish(REPO, checkpoints["gpt2"])
    hub.cut_after[WEIGHTS] = 1000
    local = ensure(entry(), cache, offline=False, progress=None)
    assert hub.ranges_of(WEIGHTS) == [None, "bytes=1000-"]
    assert (local.folder / WEIGHTS).read_bytes() == (checkpoints["gpt2"] / WEIGHTS).read_bytes()


def test_a_killed_fetch_is_taken_up_by_the_next_run(
    hub: HubStandIn,
    checkpoints: dict[str, Path],
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What came before the end of one process is not fetched again by another."""
    commit = hub.publish(REPO, checkpoints["gpt2"])
    hub.cut_after[WEIGHTS] = 1000

    def die(_: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("huggingface_hub.file_download.time.sleep", die)
        with pytest.raises(KeyboardInterrupt):
            ensure(entry(), cache, offline=False, progress=None)
    assert presence(entry(), cache).state == "partial"
    assert not (cache / "models" / f"some-org--tiny-model-{commit[:12]}").exists()
    local = ensure(entry(), cache, offline=False, progress=None)
    assert hub.ranges_of(WEIGHTS) == [None, "bytes=1000-"]
    assert hub.ranges_of("config.json") == [None]
    assert (local.folder / WEIGHTS).read_bytes() == (checkpoints["gpt2"] / WEIGHTS).read_bytes()
    assert presence(entry(), cache).state == "present"


def test_a_wrong_file_from_the_hub_is_deleted(
    hub: HubStandIn, checkpoints: dict[str, Path], cache: Path
) -> None:
    """Bytes that differ from the hub's own listing are refused; the next run fetches anew."""
    hub.publish(REPO, checkpoints["gpt2"])
    right = (checkpoints["gpt2"] / WEIGHTS).read_bytes()
    hub.swapped[WEIGHTS] = right[:-1] + bytes([right[-1] ^ 1])
    with pytest.raises(ModelError, match=r"model\.safetensors .* not the .* it was deleted"):
        ensure(entry(), cache, offline=False, progress=None)
    hub.swapped.clear()
    local = ensure(entry(), cache, offline=False, progress=None)
    assert (local.folder / WEIGHTS).read_bytes() == right


def test_a_file_that_changes_in_the_cache_is_found(
    hub: HubStandIn, checkpoints: dict[str, Path], cache: Path
) -> None:
    """A cached file is held to the digest that was recorded when it came."""
    hub.publish(REPO, checkpoints["gpt2"])
    local = ensure(entry(), cache, offline=False, progress=None)
    weights = local.folder / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    for use in (
        lambda: ensure(entry(), cache, offline=True, progress=None),
        lambda: identity(entry(), cache),
        local.verify,
    ):
        with pytest.raises(ModelError, match=r"model\.safetensors is not the file"):
            use()


def test_a_folder_of_another_revision_is_not_taken(
    hub: HubStandIn, checkpoints: dict[str, Path], cache: Path
) -> None:
    """Folder names carry a short commit; the whole one is held against the folder's record."""
    commit = hub.publish(REPO, checkpoints["gpt2"])
    ensure(entry(), cache, offline=False, progress=None)
    twin = commit[:-1] + ("0" if commit[-1] != "0" else "1")
    with pytest.raises(ModelError, match=f"at {commit}, wanted hub:{REPO} at {twin}"):
        ensure(entry(twin), cache, offline=True, progress=None)


def test_a_branch_that_moved_is_refused(hub: HubStandIn, checkpoints: dict[str, Path], cache: Path) -> None:
    """The commit of the first fetch is locked: another one by the same name is not taken."""
    first = hub.publish(REPO, checkpoints["gpt2"])
    local = ensure(entry(), cache, offline=False, progress=None)
    second = hub.publish(REPO, checkpoints["llama"])
    assert ensure(entry(), cache, offline=False, progress=None) == local
    shutil.rmtree(local.folder)
    with pytest.raises(ModelError, match=f"was {first} and is {second} now") as caught:
        ensure(entry(), cache, offline=False, progress=None)
    assert caught.value.remedy is not None
    assert f"{REPO}@{first}" in caught.value.remedy
    assert json.loads((cache / "revisions.json").read_text()) == {f"{REPO}@main": first}
    assert revision_of(entry(), cache) == first
    named = ensure(entry(first), cache, offline=False, progress=None)
    assert named.identity.digest == local.identity.digest


def test_a_damaged_lock_is_not_a_free_choice(
    hub: HubStandIn, checkpoints: dict[str, Path], cache: Path
) -> None:
    """A lock file that can't be read stops the fetch: what it promised is unknown."""
    hub.publish(REPO, checkpoints["gpt2"])
    cache.mkdir()
    (cache / "revisions.json").write_text("{")
    with pytest.raises(Exception, match=r"revisions\.json is not JSON"):
        ensure(entry(), cache, offline=False, progress=None)


def test_a_named_revision_is_asked_for(hub: HubStandIn, checkpoints: dict[str, Path], cache: Path) -> None:
    """A pull request's ref is resolved and locked like a branch."""
    hub.publish(REPO, checkpoints["llama"])
    commit = hub.publish(REPO, checkpoints["gpt2"], branch="refs/pr/7")
    wanted = entry("refs/pr/7")
    local = ensure(wanted, cache, offline=False, progress=None)
    assert local.identity.revision == commit
    assert revision_of(wanted, cache) == commit


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (entry(repo="some-org/gone"), "no repository some-org/gone"),
        (entry("v9"), "has no revision v9"),
        (entry("b" * 40), "has no revision b"),
    ],
)
def test_what_the_hub_has_not_is_named(
    wanted: ModelEntry,
    message: str,
    hub: HubStandIn,
    checkpoints: dict[str, Path],
    cache: Path,
) -> None:
    """A missing repository or revision is not mistaken for a missing network."""
    hub.publish(REPO, checkpoints["gpt2"])
    with pytest.raises(ModelError, match=message) as caught:
        ensure(wanted, cache, offline=False, progress=None)
    assert not isinstance(caught.value, ModelUnavailable)


def test_a_repository_of_pickles_is_refused_before_any_file(
    hub: HubStandIn, checkpoints: dict[str, Path], cache: Path, tmp_path: Path
) -> None:
    """Without safetensors nothing is fetched, and the remedy is to name another revision."""
    folder = shutil.copytree(checkpoints["opt"], tmp_path / "pickled")
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    hub.publish(REPO, folder)
    with pytest.raises(ModelError, match=r"pytorch_model\.bin only") as caught:
        ensure(entry(), cache, offline=False, progress=None)
    assert caught.value.remedy is not None
    assert "--model" in caught.value.remedy
    assert not any("/resolve/" in path for _, path, _ in hub.requests)
