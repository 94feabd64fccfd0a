"""The face of Didyma."""
