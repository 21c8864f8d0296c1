"""Tests of prereg.inference."""
