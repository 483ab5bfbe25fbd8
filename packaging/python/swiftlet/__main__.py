"""python -m swiftlet: the command `swiftlet`."""
from . import _main

_main()
