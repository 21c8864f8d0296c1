"""The reviewer's audit: every check of a registration, its history, its evidence and its verdicts."""

from __future__ import annotations

from prereg.audit.case import Tables
from prereg.audit.findings import Finding, Status
from prereg.audit.page import page
from prereg.audit.report import AuditReport
from prereg.audit.walk import audit

__all__ = ["AuditReport", "Finding", "Status", "Tables", "audit", "page"]
