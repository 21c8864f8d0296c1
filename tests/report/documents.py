"""A verdicts.json made by hand, of one hypothesis, as `write_report` writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.report.records import record

__all__ = ["ROOT", "document", "write_document"]

ROOT = "cd" * 32


def document(
    outcome: str = "supported", status: str = "registered", root: str | None = ROOT, **changes: Any
) -> dict[str, Any]:
    """Return a document whose one verdict is of H1 on smollm2-135m; `changes` go into the verdict."""
    reasons = [] if status == "registered" else ["the promise was edited"]
    registration = {"status": status, "root": root, "known": "none" if root else None, "reasons": reasons}
    verdict = record(
        study="sample",
        outcome=outcome,
        answer="supported",
        registration=registration,
        attempts={"data": 1, "earlier": [], "look": None, "alpha": None},
        version=None,
        other=None,
        cautions=[],
    )
    verdict.update(changes)
    return {
        "format": 1,
        "study": "sample",
        "model": {"alias": "smollm2-135m", "source": "folder:x", "revision": "r", "digest": "ef" * 32},
        "protocol_digest": "ab" * 32,
        "registration": dict(registration),
        "hypotheses_total": 1,
        "tested": 1,
        "not_tested": [],
        "verdicts": [verdict],
    }


def write_document(root: Path, content: dict[str, Any] | None = None) -> Path:
    """Write a document into a folder of reports under `root`; return that folder."""
    content = document() if content is None else content
    folder = root / "reports" / str(content["study"]) / str(content["model"]["alias"])
    folder.mkdir(parents=True)
    (folder / "verdicts.json").write_text(json.dumps(content), "utf-8")
    return folder
