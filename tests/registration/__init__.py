"""Registration, against real repositories."""
