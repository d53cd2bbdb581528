"""Runs the program on situations that people reported in public. For each directory with such a
situation at least one function states the right result. Run it as `python3
tests/oracle/public_reports [FOLDER]...`, and without folders for all."""
import sys

import case
import damage  # noqa: F401 (a module registers its rows when it is imported)
import kinds  # noqa: F401
import verdicts  # noqa: F401

case.main(sys.argv[1:])
