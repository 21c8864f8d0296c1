"""Sets of updates inside sets of updates: a chain that no study needs is refused before it costs anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from prereg.errors import ProtocolError
from prereg.protocol import read_protocol

DATA = Path(__file__).parents[1] / "data" / "protocol.toml"


def test_a_long_chain_of_parts_is_refused(tmp_path: Path) -> None:
    """Each set is the first half of the one before: past 32 of them the reader says so."""
    sets = "".join(
        f'[updates.s{i}]\ndescription = "One of a long chain."\npart_of = "{f"s{i - 1}" if i else "deep"}"\n'
        "part = 1\nparts = 2\n"
        for i in range(40)
    )
    file = tmp_path / "protocol.toml"
    file.write_text(DATA.read_text("utf-8") + sets, "utf-8")
    with pytest.raises(ProtocolError, match="more than 32 sets inside each other"):
        read_protocol(file)
