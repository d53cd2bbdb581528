"""The situations that people reported in public, through the real program: one function or more for each folder says what is
right. Run it as `python3 tests/oracle/public_reports [FOLDER]...`; without folders all run."""
import sys

import case
import damage  # noqa: F401 (a module registers its rows when it is imported)
import kinds  # noqa: F401
import verdicts  # noqa: F401

case.main(sys.argv[1:])
