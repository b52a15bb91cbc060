"""``python -m assay``."""

import sys

from assay.cli import main

if __name__ == "__main__":
    sys.exit(main())
