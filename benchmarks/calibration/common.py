"""What the studies of this folder share: seeds, Monte Carlo intervals, tables as bytes."""

from __future__ import annotations

import csv
import io
import math
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

RESULTS = Path(__file__).parent / "results"
SEED = 20_261_130


def stream(seed: int, *names: object) -> np.random.SeedSequence:
    """Return the stream of a place in a study: it depends on the place's names and on nothing run before."""
    return np.random.SeedSequence([seed, zlib.crc32("/".join(map(str, names)).encode())])


def plan_seed(seed: int, *names: object) -> int:
    """Return a whole number below 2**31 for a plan, apart from the stream of the data."""
    return int(stream(seed, "plan", *names).generate_state(1)[0] >> 1)


def wilson(count: int, total: int) -> tuple[float, float]:
    """Return the 95% score interval of a share (Wilson 1927, doi:10.1080/01621459.1927.10502953)."""
    z = 1.959963984540054
    share, spread = count / total, z * z / total
    middle = (share + spread / 2.0) / (1.0 + spread)
    half = z * math.sqrt(share * (1.0 - share) / total + spread / (4.0 * total)) / (1.0 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def share_cells(count: int, total: int) -> list[str]:
    """Return a share and its Monte Carlo interval as three cells of a table; empty ones for nothing counted."""
    if total == 0:
        return ["", "", ""]
    return [f"{value:.4f}" for value in (count / total, *wilson(count, total))]


def write_rows(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Replace a table whole, so that an interrupted run leaves the last complete one."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    draft.write_text(text.getvalue(), encoding="utf-8", newline="")
    draft.replace(path)


def read_rows(path: Path, header: Sequence[str]) -> list[list[str]]:
    """Return a table's rows; none where there is no table, or one of other columns."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    return rows[1:] if rows and rows[0] == list(header) else []
