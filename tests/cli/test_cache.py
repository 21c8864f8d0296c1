"""`prereg cache`: listing, checking and removing, on small stores of random numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.activations.store.conftest import Bench, bench  # noqa: F401 (a fixture)
from tests.cli.conftest import Run
from tests.forbidden import forbidden

CACHE = "--cache-dir"


@pytest.fixture
def cache(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> str:  # noqa: F811
    """Return a cache folder with one finished store, seen from a folder without models."""
    bench.build()
    elsewhere = bench.root.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return str(bench.root.parent)


def listed(run: Run, cache: str) -> list[dict[str, object]]:
    stores: list[dict[str, object]] = json.loads(run("cache", CACHE, cache, "--json").stdout)["stores"]
    return stores


def damage(bench: Bench) -> None:  # noqa: F811
    file = bench.folder / "resid.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def test_a_store_is_listed_with_its_size(bench: Bench, cache: str, run: Run) -> None:  # noqa: F811
    """The table names it by the beginning of its key; the JSON gives all."""
    found = run("cache", "list", CACHE, cache)
    assert found.exit_code == 0
    assert bench.manifest.key[:12] in found.stdout
    (store,) = listed(run, cache)
    assert (store["key"], store["complete"], store["prompts"]) == (bench.manifest.key, True, 10)
    assert store["trouble"] is None


def test_an_empty_cache_is_no_error(tmp_path: Path, run: Run) -> None:
    """A folder that isn't there holds nothing."""
    assert listed(run, str(tmp_path / "none")) == []


def test_verify_finds_a_whole_store_whole(bench: Bench, cache: str, run: Run) -> None:  # noqa: F811
    """Every byte was read again."""
    found = run("cache", "verify", CACHE, cache)
    assert found.exit_code == 0, found.output
    assert f"whole  store {bench.manifest.key}" in found.stdout


def test_verify_finds_a_flipped_bit_and_exits_with_2(bench: Bench, cache: str, run: Run) -> None:  # noqa: F811
    """The store, the file and the rows are named."""
    damage(bench)
    found = run("cache", "verify", bench.manifest.key[:10], CACHE, cache, "--json")
    assert found.exit_code == 2
    document = json.loads(found.stdout)
    assert document["damaged"] == 1
    assert "resid.npy" in document["checked"][0]["trouble"]


def test_remove_deletes_the_store_that_the_key_begins(bench: Bench, cache: str, run: Run) -> None:  # noqa: F811
    """The beginning of a key is enough where only one store has it."""
    found = run("cache", "remove", bench.manifest.key[:8], CACHE, cache)
    assert found.exit_code == 0
    assert not bench.folder.exists()
    assert listed(run, cache) == []


@pytest.mark.parametrize("key", ["zz", ""])
def test_remove_refuses_a_key_that_names_no_one_store(bench: Bench, cache: str, run: Run, key: str) -> None:  # noqa: F811
    """Neither an unknown key nor an empty one deletes anything."""
    found = run("cache", "remove", key, CACHE, cache)
    assert found.exit_code == 2
    assert "next: prereg cache list" in found.stderr
    assert bench.folder.is_dir()


def test_prune_deletes_only_what_is_unfinished_and_only_when_told(
    bench: Bench,  # noqa: F811
    cache: str,
    run: Run,
) -> None:
    """Without --yes it says what would go; with it, finished stores stay."""
    leftover = Path(cache) / "checkpoints" / "abc"
    leftover.mkdir(parents=True)
    (leftover / "update-001.npz").write_bytes(b"12345")
    first = json.loads(run("cache", "prune", CACHE, cache, "--json").stdout)
    assert first == {"removed": [], "would_remove": [str(leftover)], "bytes": 5}
    assert leftover.is_dir()
    assert run("cache", "prune", "--yes", CACHE, cache).exit_code == 0
    assert not leftover.exists()
    assert bench.folder.is_dir()


def test_prune_deletes_an_unfinished_store(bench: Bench, cache: str, run: Run) -> None:  # noqa: F811
    """A store without its last journal line can't be used."""
    journal = bench.folder / "journal.jsonl"
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-1]))
    assert listed(run, cache)[0]["complete"] is False
    assert run("cache", "prune", "--yes", CACHE, cache).exit_code == 0
    assert not bench.folder.exists()


@pytest.mark.parametrize("command", ["list", "verify", "prune"])
def test_options_before_the_command_s_name_mean_the_same(
    bench: Bench,  # noqa: F811
    cache: str,
    run: Run,
    command: str,
) -> None:
    """`prereg cache --json list` is `prereg cache list --json`."""
    after = run("cache", command, CACHE, cache, "--json")
    assert json.loads(after.stdout)
    for before in (
        run("cache", CACHE, cache, "--json", command),
        run("cache", "--json", command, CACHE, cache),
        run("cache", CACHE, cache, command, "--json"),
    ):
        assert (before.exit_code, before.stdout) == (after.exit_code, after.stdout)
    assert bench.manifest.key


@pytest.mark.parametrize("inside", ["", "stores", "models", "checkpoints"])
def test_a_cache_that_may_not_be_read_is_an_error_in_words(tmp_path: Path, run: Run, inside: str) -> None:
    """Exit code 2, what is forbidden, and what to do."""
    cache = tmp_path / "cache"
    (cache / inside).mkdir(parents=True)
    with forbidden(cache / inside):
        found = run("cache", CACHE, str(cache))
    assert found.exit_code == 2
    assert "Permission denied" in found.stderr
    assert "next: " in found.stderr


def test_a_file_that_nobody_thought_of_is_an_error_in_words(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever the system refuses, the user reads which path and why."""

    def refuse(_: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path / "secret"))

    monkeypatch.setattr("prereg.cli.cache.cache_folder", refuse)
    found = run("cache", "list", "--json")
    assert found.exit_code == 2
    assert json.loads(found.stdout)["error"]["kind"] == "StorageError"
    assert "secret can't be used: Permission denied" in found.stderr


def test_a_home_that_nobody_has_is_an_error_in_words(run: Run) -> None:
    """`~` of a user that there isn't."""
    found = run("cache", CACHE, "~no-such-user-here/cache")
    assert (found.exit_code, "without ~" in found.stderr) == (2, True)
