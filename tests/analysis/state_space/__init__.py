"""Tests of the state-space analysis."""
