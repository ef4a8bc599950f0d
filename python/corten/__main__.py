"""``python -m corten script.py args``."""

import sys

from corten.run import main

main(sys.argv[1:])
