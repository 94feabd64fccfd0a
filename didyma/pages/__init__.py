"""Pages of the documentation that are written from the code: ``python -m didyma.pages docs``."""
