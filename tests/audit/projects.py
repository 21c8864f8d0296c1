"""A registered project in a temporary repository, and what one does to it before it is audited."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from prereg.audit import AuditReport, Finding, audit
from prereg.registration.amend import amend
from prereg.registration.records import Known
from prereg.report import replication_contents, report_contents
from tests import synthetic

__all__ = ["Project"]

STUDY = "gates/sample"
REPORTS = "reports/sample/pythia-tiny"


class Project:
    """A project; paths are from its root."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def copy(cls, source: Path, root: Path) -> Project:
        """Return a copy of a project, its history included."""
        shutil.copytree(source, root, symlinks=True)
        return cls(root)

    def path(self, name: str) -> Path:
        return self.root / name

    def read(self, name: str) -> str:
        return self.path(name).read_text("utf-8")

    def write(self, name: str, text: str | bytes) -> None:
        file = self.path(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace text that is there exactly once."""
        text = self.read(name)
        assert text.count(old) == 1, (name, old, text.count(old))
        self.write(name, text.replace(old, new))

    def git(self, *arguments: str) -> str:
        return synthetic.git(self.root, *arguments)

    def commit(self, message: str = "A change") -> str:
        return synthetic.commit(self.root, message)

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def audit(self, models: Sequence[str] | None = None, *, root: Path | None = None) -> AuditReport:
        """Audit the study: its history alone where `models` is empty."""
        root = root or self.root
        return audit(
            root / STUDY,
            synthetic.options(root),
            models,
            tables=report_contents,
            replicated=replication_contents,
        )

    def looser(self, threshold: str = "0.05") -> None:
        """Loosen the threshold of H1, 0.1 as frozen."""
        self.edit(f"{STUDY}/protocol.toml", "threshold = 0.1", f"threshold = {threshold}")

    def stricter(self, threshold: str = "0.05") -> None:
        """Undo `looser`."""
        self.edit(f"{STUDY}/protocol.toml", f"threshold = {threshold}", "threshold = 0.1")

    def amend(self, *subjects: str, known: Known = "full") -> str:
        """Register what was changed; return the amendment's file name."""
        statement = None if known == "none" else "The verdicts on pythia-tiny were seen."
        made = amend(
            synthetic.prepared(self.root),
            subjects,
            reason="The margin was read off the wrong table.",
            known=known,
            statement=statement,
        )
        return made.file_name


def of(report: AuditReport, check: str, *statuses: str) -> list[Finding]:
    """Return the findings of a check, of some statuses or of all."""
    return [f for f in report.findings if f.check == check and (not statuses or f.status in statuses)]


def said(findings: Sequence[Finding]) -> str:
    """Return everything that findings say, for `in`."""
    return "\n".join(
        "\n".join((f.status, f.message, *f.details, f.remedy or "", *f.commits)) for f in findings
    )
