"""What a glance at git says of a registration; the whole walk is `prereg.audit`'s."""

from __future__ import annotations

import os
from pathlib import Path

from prereg.errors import RegistrationError
from prereg.hostile import printable
from prereg.registration.attempts import ATTEMPTS
from prereg.registration.chain import Chain
from prereg.registration.history import Repository
from prereg.registration.judgement import Judgement, few
from prereg.registration.records import AMENDMENTS, REGISTRATION, Registration, decode_json, parse

__all__ = ["ask_git"]


def ask_git(chain: Chain, root: Path) -> Judgement:
    """Return what git says of a registration that agrees with everything in the working tree.

    A few processes, some ten milliseconds: whether the file is committed, was the first of its name, came before any
    result under it, and whether nothing of the log or of the amendments was taken away.
    """
    file = chain.folder / REGISTRATION
    try:
        repository = Repository.open(chain.folder)
        seen = repository.quick(file)
        attempts = f"{repository.relative(chain.folder)}/{ATTEMPTS}/".removeprefix("./")
    except RegistrationError as error:
        reason = error.message.replace(f"{chain.folder}{os.sep}", "")
        return "unverified", (reason,), error.remedy, None
    if seen.obstacle is not None:
        return "unverified", (seen.obstacle.reason,), seen.obstacle.remedy, seen.first
    if seen.first is None:
        reason = f"{REGISTRATION} is not committed: nothing shows that it came before the data"
        return "unverified", (reason,), f"git add {chain.folder} && git commit -m 'Register the study'", None
    if _is_rewritten(repository, chain, seen.versions):
        reason = f"{REGISTRATION} was rewritten after its first commit {seen.first[:12]}"
        return "tampered", (reason,), f"prereg audit {chain.folder}", seen.first
    bad = _bad_witness(file)
    if bad is not None:
        return "tampered", (bad,), f"prereg audit {chain.folder}", seen.first
    trouble = _first_together(repository, chain, root, seen.first) or _lost(repository, chain)
    if trouble is not None:
        return "unverified", trouble[0], trouble[1], seen.first
    # Each run adds to the log; what it takes away is another matter.
    uncommitted = [
        name
        for name in seen.uncommitted
        if not (name.startswith(attempts) and (repository.root / name).is_file())
    ]
    if uncommitted:
        return (
            "unverified",
            few([f"{printable(name)} is not committed as it is here" for name in uncommitted]),
            f"git add {chain.folder} && git commit",
            seen.first,
        )
    return "registered", (), None, seen.first


def _bad_witness(file: Path) -> str | None:
    """Say what a signature or a receipt beside the registration says against it; they are looked at where present."""
    from prereg.registration.receipts import receipt_witnesses
    from prereg.registration.signatures import ssh_witness

    beside = [file.with_name(f"{file.name}.{kind}") for kind in ("sig", "ots", "tsr")]
    if not any(path.is_symlink() or path.exists() for path in beside):
        return None
    signers = file.with_name("allowed_signers")
    found = [ssh_witness(file, beside[0], signers if signers.exists() else None), *receipt_witnesses(file)]
    bad = [w for w in found if w is not None and w.state == "bad"]
    return f"{bad[0].kind} beside {file.name}: {bad[0].detail}" if bad else None


def _is_rewritten(repository: Repository, chain: Chain, versions: tuple[str, ...]) -> bool:
    """Tell whether any commit holds another registration in this file: not whether it was spelled otherwise."""
    if len(versions) < 2:
        return False
    for version in versions:
        try:
            raw = repository.read(version)
            root = parse(Registration, decode_json(raw, REGISTRATION), REGISTRATION).root
        except RegistrationError:
            return True
        if root != chain.registration.root:
            return True
    return False


def _first_together(
    repository: Repository, chain: Chain, root: Path, first: str
) -> tuple[tuple[str, ...], str] | None:
    """Say so where the commit that brought the registration brought results under it as well."""
    reports = root / "reports" / chain.registration.study
    folders = [f for f in (chain.folder / ATTEMPTS, reports) if f.resolve().is_relative_to(repository.root)]
    together = repository.mentions(first, chain.registration.root, folders)
    if not together:
        return None
    reason = (
        f"registration and results first appear together in commit {first[:12]} ({printable(together[0])}): "
        "a squash hides which came first"
    )
    return (reason,), "merge the branch with its commits (git merge --no-ff), not squashed"


def _lost(repository: Repository, chain: Chain) -> tuple[tuple[str, ...], str] | None:
    """Say so where history once held an attempt or an amendment that isn't here as it was."""
    lost = repository.lost([chain.folder / ATTEMPTS, chain.folder / AMENDMENTS])
    if not lost:
        return None
    words = [f"{printable(path)} was removed or changed in commit {commit[:12]}" for path, commit in lost]
    path, commit = lost[0]
    return few(words), f"git checkout {commit[:12]}^ -- {printable(path)}"
