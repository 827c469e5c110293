# SPDX-License-Identifier: Apache-2.0
"""The Python package: sessions, values, errors, what goes on from run to run."""

from mutants import Mutant

PACKAGE, TESTS = "tools/python/demi_onnx/", "python python_train python_backend python_large"

MUTANTS = (
    Mutant("small results of two runs are one array", PACKAGE + "_session.py",
           "(place.copy() if out.small else place)", "place", TESTS),
    Mutant("a result that was given away is written again", PACKAGE + "_session.py",
           "        if slot.bound and not slot.small:", "        if slot.bound and slot.small:", TESTS),
    Mutant("an array that is not contiguous is read as if it were", PACKAGE + "_session.py",
           "x.shape == slot.shape\n                    and x.flags.c_contiguous):", "x.shape == slot.shape):", TESTS),
    Mutant("an input that is left out keeps what it was", PACKAGE + "_session.py",
           "        if slot.is_set:\n            self._check(lib.demi_context_unset_input",
           "        if slot.is_set and not slot.arg.has_default:\n            self._check(lib.demi_context_unset_input",
           TESTS),
    Mutant("an output that was bound stays where it was", PACKAGE + "_session.py",
           "            self._given.pop(name, None)", "            self._given.get(name, None)", TESTS),
    Mutant("a carried input that is given again is not begun anew", PACKAGE + "_stateful.py",
           "            slot.shape, slot.at, slot.is_set = None, None, True\n            self._held.add",
           "            slot.is_set = True\n            self._held.add", "python_large"),
    Mutant("'a*a' stands for 'a'", PACKAGE + "_stateful.py",
           "(len(arg.name) >= len(before + after) and arg.name.startswith(before)",
           "(arg.name.startswith(before)", "python_large"),
    Mutant("bytes of a name that are no text are lost", PACKAGE + "_errors.py",
           'raw.decode("utf-8", "backslashreplace")', 'raw.decode("utf-8", "replace")', TESTS),
)
