"""`python -m fjit`: the command line; see `fjit.cli`."""

import sys

from fjit.cli import main

if __name__ == "__main__":
    sys.exit(main())
