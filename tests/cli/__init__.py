"""Tests of prereg.cli."""
