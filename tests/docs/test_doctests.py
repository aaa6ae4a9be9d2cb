"""Examples in docstrings; those of a client's package run with its tests, see `pages.py`."""

import doctest
import importlib
import inspect
import pkgutil

from cases import each

import memdb

# Building scripts for packed data need the network, a client's package needs the client.
SKIPPED = ("memdb.text.data", "memdb.facts.data", "memdb.__main__")
CLIENTS = "memdb.integrations."
OF_NO_CLIENT = ("memdb.adapters.adapter", "memdb.integrations.otel")
MODULES = [
    module.name
    for module in pkgutil.walk_packages(memdb.__path__, "memdb.")
    if not module.name.startswith(SKIPPED)
    if not module.name.startswith(CLIENTS) or module.name in OF_NO_CLIENT
]


@each("name", MODULES)
def test_examples_in_docstrings_are_true(name):
    """Every `>>>` in a docstring gives what stands below it."""
    module = importlib.import_module(name)

    if ">>>" in inspect.getsource(module):  # looking for examples in all objects takes 20 ms
        assert doctest.testmod(module).failed == 0
