"""What `make lint` checks of the imports between our modules: that there is no circle, type-only imports included."""

from __future__ import annotations

import sys
from graphlib import CycleError, TopologicalSorter

import grimp

PACKAGE = "catalog_ext"


def cycle(package: str = PACKAGE) -> list[str]:
    """The modules of one circle of imports, the first one repeated at the end; empty without a circle."""
    graph = grimp.build_graph(package, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def main() -> int:
    """0 if there is no circle; otherwise 1, with the modules of one on standard error."""
    found = cycle()
    if found:
        sys.stderr.write("These modules import each other:\n  " + "\n  -> ".join(found) + "\n")
    else:
        sys.stdout.write(f"No import cycle between the modules of {PACKAGE}.\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
