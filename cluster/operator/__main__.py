"""`python -m cluster.operator`."""

import sys

from cluster.operator.main import main

if __name__ == "__main__":
    sys.exit(main())
