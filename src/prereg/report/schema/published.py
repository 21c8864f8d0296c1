"""The JSON Schema of verdicts.json: made from the models, kept as a file that others can point to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prereg.report.schema.document import VerdictsDocument
from prereg.tabular import json_bytes

__all__ = ["SCHEMA_FILE", "published_schema", "schema_bytes"]

SCHEMA_FILE = Path(__file__).with_name("verdicts.schema.json")
"""The schema as it is published, inside the package."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"
NAME = "urn:prereg:verdicts:1"


def published_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of verdicts.json, format 1."""
    schema = VerdictsDocument.model_json_schema(mode="validation")
    return {"$schema": DIALECT, "$id": NAME, **schema, "title": "verdicts.json"}


def schema_bytes() -> bytes:
    """Return the schema as the file has it."""
    return json_bytes(published_schema())
