"""verdicts.json as others may rely on it: its models, and the JSON Schema made from them."""

from __future__ import annotations

from prereg.report.schema.document import VerdictsDocument
from prereg.report.schema.published import SCHEMA_FILE, published_schema, schema_bytes
from prereg.report.schema.reading import read_verdicts

__all__ = ["SCHEMA_FILE", "VerdictsDocument", "published_schema", "read_verdicts", "schema_bytes"]
