"""``python3 -m tests.gpu``."""

import sys

from tests.gpu.run_device import main

if __name__ == "__main__":
    sys.exit(main())
