"""Tests of prereg.console."""
