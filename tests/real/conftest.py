"""Two processes share the tests by file: what a file's tests have made is theirs, and only one process writes it."""

import pytest

TOGETHER = {"test_audit_faults": "test_audit"}  # both harm copies in one folder


def pytest_collection_modifyitems(items):
    for item in items:
        name = item.path.stem
        item.add_marker(pytest.mark.xdist_group(TOGETHER.get(name, name)))
