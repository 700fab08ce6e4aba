"""Which libraries this process has loaded, and from which files."""

import _ctypes
import ctypes
import os


class _LinkMap(ctypes.Structure):
    # The start of `struct link_map` in <link.h>; what dlopen returns points at one (glibc, musl).
    _fields_ = [("address", ctypes.c_void_p), ("path", ctypes.c_char_p)]


def loaded(name):
    """The path of the library that is loaded under this name or SONAME, or None."""
    try:
        # What ctypes.CDLL calls, without the class that it makes for every library.
        handle = _ctypes.dlopen(name, os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None
    path = ctypes.cast(handle, ctypes.POINTER(_LinkMap)).contents.path
    return os.fsdecode(path or b"")


def survey(names, required):
    """Compare what is mapped with `names` (name -> planned path), by inode.

    Returns the mapped files under one of the names that are not the planned one, each with the
    planned path, and those of the `required` paths that are not mapped.
    """
    planned = {name: _identity(path) for name, path in names.items()}
    foreign, seen = {}, set()
    for path in mapped():
        file, deleted, _ = path.partition(" (deleted)")
        identity = None if deleted else _identity(file)
        seen.add(identity)
        name = os.path.basename(file)
        if name in planned and identity != planned[name]:
            foreign[path] = names[name]
    return foreign, [path for path in required if _identity(path) not in seen]


def mapped():
    """The paths of all libraries that are mapped into this process (proc(5), /proc/pid/maps)."""
    with open("/proc/self/maps", "rb") as file:
        lines = file.read().split(b"\n")
    # The columns before the path hold no slash.
    paths = {line[line.index(b"/") :] for line in lines if b".so" in line and b"/" in line}
    return [os.fsdecode(path) for path in paths]


def _identity(path):
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
