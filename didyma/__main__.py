"""``python -m didyma``."""

from didyma.cli import main

if __name__ == "__main__":
    main()
