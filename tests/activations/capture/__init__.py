"""Capture: sites, plan, parity, runs."""
