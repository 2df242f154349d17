"""`python -m xpress_bench` is the `xpress-bench` command."""

import sys

from xpress_bench.cli import main

sys.exit(main())
