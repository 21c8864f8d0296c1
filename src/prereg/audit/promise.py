"""The promise now, against the one in force."""

from __future__ import annotations

from collections.abc import Iterator

from prereg.audit.case import Case
from prereg.audit.findings import Finding
from prereg.errors import ProtocolError

__all__ = ["check_promise"]


def check_promise(case: Case) -> Iterator[Finding]:
    """Compare protocol.toml as it lies with the promise in force.

    Integrity: "threshold edited after the freeze: tampered: names the key, the frozen and the present value".
    """
    read = case.read
    if isinstance(read, ProtocolError):
        # Once something was promised, a file that promises nothing is not it.
        status = "unverified" if case.chain is None else "violation"
        yield Finding("promise", status, read.message, remedy=read.remedy)  # type: ignore[arg-type]
        return
    if case.chain is None:
        return
    changed = case.chain.differs(read.protocol)
    if changed:
        yield Finding(
            "promise",
            "violation",
            f"protocol.toml is not the promise in force, {case.chain.current.root[:16]}: {changed[0].words}",
            tuple(change.words for change in changed),
            remedy=f"git checkout -- {case.shown(read.path)}, or register it: "
            f"prereg amend {case.shown(case.folder)} ... --reason ...",
        )
        return
    words = "as frozen" if not case.chain.amendments else f"as amended ({len(case.chain.amendments)})"
    yield Finding(
        "promise", "verified", f"protocol.toml promises what is in force: {words}, {read.digest[:16]}"
    )
