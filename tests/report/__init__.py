"""Tests of prereg.report."""
