"""The facade: a torch folder of symlinks whose `lib/*` lead to the bundle first.

For those who open or link torch's libraries by path. Nothing in the installed torch is touched. A
facade appears by one rename and is named by a hash of all that it leads to, so it never changes; a
link that a cleaner of temporary folders took away is laid again.

    python -I …/torch_fl/_facade.py DIR [--torch FOLDER]

publishes one at DIR for a build system (`torchfl facade DIR`): put DIR in front of sys.path, or
DIR/torch/include and DIR/torch/lib into compiler options. FOLDER is the installed torch; without it
the one that this Python would import is taken. Prints one line of JSON; exit status 1 on an error.
"""

import os
import stat
import sys
import time
from hashlib import sha256

MARK = "TORCH_FL_FACADE"
CACHED = "__pycache__"


class Unsafe(Exception):
    """A folder that others can change, or that we cannot write to."""


def beside(home):
    """The folder of facades that were composed together with torch_fl: its owner's, as torch_fl is."""
    return home + ".facade"


def ready(tree, home, name):
    """The facade of this name beside torch_fl, if it is there and whole."""
    folder = os.path.join(beside(home), name)
    return folder if os.path.isdir(folder) and not _wrong_links(tree, folder) else None


def place(environ, make=True):
    """The folder for facades and compile caches, made if need be. Raises Unsafe with the reasons.

    Without `make` it is made only where somebody else could make it first.
    """
    asked = environ.get("TORCH_FL_CACHE_DIR")
    if asked:
        try:
            return _safe(os.path.abspath(asked), make)
        except OSError as error:
            raise Unsafe(str(error)) from error
    reasons = []
    for candidate in _default_places(environ):
        try:
            folder = _safe(candidate, make)
            if os.access(_existing(folder), os.W_OK | os.X_OK):
                return folder
            reasons.append(f"{folder} cannot be written")
        except (Unsafe, OSError) as error:
            reasons.append(str(error))
    raise Unsafe("; ".join(reasons))


def executable(folder, environ, make=True):
    """`folder`, or a safe one instead of it if nothing can be executed there; None without one."""
    for candidate in (folder, _temporary(environ)):
        try:
            safe = _safe(candidate, make)
            if not os.statvfs(_existing(safe)).f_flag & os.ST_NOEXEC:
                return safe
        except (Unsafe, OSError):
            continue
    return None


def _default_places(environ):
    home = environ.get("HOME")
    if not home:
        try:
            import pwd

            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:  # a uid without an entry, as in containers
            home = ""
    cache = environ.get("XDG_CACHE_HOME")
    if cache is None and os.path.isdir(home):
        cache = os.path.join(home, ".cache")
    if cache and os.path.isabs(cache):  # XDG base directory specification: ignore relative ones
        yield os.path.join(cache, "torch-fl")
    yield _temporary(environ)


def _temporary(environ):
    return os.path.join(environ.get("TMPDIR") or "/tmp", f"torch-fl-{os.getuid()}")


def _existing(path):
    """`path`, or what is there of it."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _safe(path, make=True):
    """The real path of a folder that only this user (or root) can change; made if it is not there.

    What is above it is checked before anything is made: root must leave nothing in a user's home. Without `make` a
    folder stays absent where no other user can make it.
    """
    if os.path.islink(path) and os.path.basename(path) == f"torch-fl-{os.getuid()}":
        raise Unsafe(f"{path} is a link, which anybody may have laid")
    path = os.path.realpath(path)
    missing = []
    above = path
    while not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)
    while True:
        if above != path:
            _check_above(above, path)
        if above == "/":
            break
        above = os.path.dirname(above)
    if missing and not make and not os.stat(os.path.dirname(missing[-1])).st_mode & 0o022:
        return path
    for folder in reversed(missing):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:  # another process was faster
            pass
    facts = os.lstat(path)
    if not stat.S_ISDIR(facts.st_mode):
        raise Unsafe(f"{path} is not a folder")
    if facts.st_uid not in (os.getuid(), 0):
        raise Unsafe(f"{path} belongs to uid {facts.st_uid}")
    if facts.st_mode & 0o022:
        raise Unsafe(f"{path} can be written by others (mode {stat.S_IMODE(facts.st_mode):o})")
    return path


def _check_above(folder, path):
    facts = os.lstat(folder)
    if facts.st_uid not in (os.getuid(), 0):
        raise Unsafe(f"{folder}, above {path}, belongs to uid {facts.st_uid}")
    # The user's own group is the user, where umask 002 is the habit; another group is others.
    others = 0o002 if facts.st_gid in (os.getgid(), 0) else 0o022
    if facts.st_mode & others and not facts.st_mode & stat.S_ISVTX:
        raise Unsafe(f"{folder}, above {path}, can be written by others (mode {stat.S_IMODE(facts.st_mode):o})")


def links(torch, home, build):
    """All links of the facade, as sorted pairs (path in it, absolute target)."""
    tree = []
    overlay = f"{home}/{build['overlay']}" if build["overlay"] else None
    over = _entries(overlay) if overlay else {}
    for name in os.listdir(torch):
        if name == CACHED:
            continue  # Python makes it when it likes: it must not make another facade
        if name in over:
            _merge(tree, f"torch/{name}", f"{torch}/{name}", f"{overlay}/{name}")
        elif name != "lib":
            tree.append((f"torch/{name}", f"{torch}/{name}"))
    libraries = {name: f"{torch}/lib/{name}" for name in os.listdir(f"{torch}/lib")}
    libraries.update((name, f"{home}/{build['bundle']}/{name}") for name in build["files"])
    tree += [(f"torch/lib/{name}", path) for name, path in libraries.items()]
    mangled = torch + ".libs"  # auditwheel's folder beside the package: `$ORIGIN/../../torch.libs`
    if os.path.isdir(mangled):
        tree.append(("torch.libs", mangled))
    return sorted(tree)


def _merge(tree, name, stock, over):
    """Link what one side has as a whole, go into what both have; of a file, ours."""
    mine = _entries(over)
    for part in os.listdir(stock):
        if part not in mine:
            tree.append((f"{name}/{part}", f"{stock}/{part}"))
        elif mine[part] and os.path.isdir(f"{stock}/{part}"):
            _merge(tree, f"{name}/{part}", f"{stock}/{part}", f"{over}/{part}")
            del mine[part]
    tree += [(f"{name}/{part}", f"{over}/{part}") for part in mine]


def _entries(folder):
    """name -> whether it is a folder."""
    with os.scandir(folder) as entries:
        return {entry.name: entry.is_dir() for entry in entries}


def key(build_id, torch, version, tree):
    """The name of the facade: a hash of the build, of the installed torch, and of every link."""
    digest = sha256(build_id.encode())
    record = os.path.join(os.path.dirname(torch), f"torch-{version}.dist-info", "RECORD")
    try:
        with open(record, "rb") as file:
            digest.update(file.read())
    except OSError:  # an editable torch, or another packager's: what the links lead to tells
        for _, target in tree:
            try:
                facts = os.stat(target)
                digest.update(f"{target}\0{facts.st_size}\0{facts.st_mtime_ns}\n".encode())
            except OSError:
                digest.update(f"{target}\0\n".encode())
    digest.update("".join(f"{name}\0{target}\n" for name, target in tree).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def publish(tree, folder):
    """Make the facade at `folder`, or mend it; returns it. Any number of processes may do so at once."""
    wrong = _wrong_links(tree, folder)
    if not wrong:
        return folder
    try:
        if os.path.isdir(folder):
            _lay(wrong, folder)
            return folder
        above = os.path.dirname(folder)
        os.makedirs(above, 0o700, exist_ok=True)
        _sweep(above)
        draft = f"{folder}.{os.getpid()}-{time.monotonic_ns():x}.new"
        try:
            _lay(tree, draft)
            os.rename(draft, folder)
        except OSError:
            _remove(draft)  # also on a full disk: nothing may stay
            if not os.path.isdir(folder):
                raise
            _lay(_wrong_links(tree, folder), folder)  # another process published it first
        return folder
    except OSError as error:
        raise Unsafe(f"{folder} cannot be written: {error}") from error


def _wrong_links(tree, folder):
    try:
        here = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return [(MARK, None), *tree]
    wrong = []
    readlink = os.readlink
    try:
        for link in tree:
            try:
                if readlink(link[0], dir_fd=here) == link[1]:
                    continue
            except OSError:  # gone, or not a link
                pass
            wrong.append(link)
    finally:
        os.close(here)
    return wrong if os.path.exists(f"{folder}/{MARK}") else [(MARK, None), *wrong]


def _lay(tree, folder, mode=0o700):
    """Lay links one by one, each by a rename: a killed process leaves none half."""
    made = set()
    os.makedirs(folder, mode, exist_ok=True)
    for name, target in [*tree, (MARK, None)]:
        path = f"{folder}/{name}"
        above = os.path.dirname(path)
        if above not in made:
            os.makedirs(above, mode, exist_ok=True)
            made.add(above)
        if target is None:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            continue
        try:
            os.symlink(target, path)
        except FileExistsError:
            spare = f"{path}.{os.getpid()}-{time.monotonic_ns():x}"
            os.symlink(target, spare)
            os.replace(spare, path)


def _sweep(folder):
    """Drop what a killed process left an hour or more ago."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        try:
            if name.endswith(".new") and time.time() - os.lstat(path).st_mtime > 3600:
                _remove(path)
        except OSError:
            continue


def _remove(folder):
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def main(arguments):
    import argparse
    import importlib.util
    import json

    home = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.join(home, "gate"))
    boot = importlib.import_module("torch_fl_gate").load("_boot")
    del sys.path[0]
    parser = argparse.ArgumentParser(prog="_facade.py")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("directory", nargs="?")
    where.add_argument("--beside", action="store_true", help="beside torch_fl, where its import finds it")
    parser.add_argument("--torch", help="the installed torch's folder")
    options = parser.parse_args(arguments)
    try:
        folder = None if options.beside else os.path.abspath(options.directory)
        print(json.dumps(publish_at(boot, folder, options.torch)))
    except (boot.BootError, Unsafe, OSError) as error:
        print(str(error).replace("\n  ", "; "), file=sys.stderr)  # one line, for the tool that runs this
        return 1
    return 0


def publish_at(boot, folder, torch):
    """Publish at a folder of the caller's choice: absent, empty, or a facade already; None: beside torch_fl."""
    finder = boot.finder_for(boot.HOME)
    if torch is None:
        spec = finder.locate()
        if spec is None:
            raise boot.BootError(
                "E-BOOT-003", "torch is not installed in this environment", finder.build["torch"]["install"]["pip"]
            )
        torch = os.path.dirname(spec.origin)
    torch = os.path.abspath(torch)
    plan = boot.sibling("_plan").Plan(finder, torch)
    tree = links(torch, boot.HOME, finder.build)
    name = key(finder.build["id"], torch, plan.version, tree)
    if folder is None:
        folder = os.path.join(beside(boot.HOME), name)
        os.makedirs(beside(boot.HOME), 0o777, exist_ok=True)
    if os.path.lexists(folder) and not os.path.exists(os.path.join(folder, MARK)):
        if not os.path.isdir(folder) or os.listdir(folder):
            raise Unsafe(f"{folder} exists and is not a facade: name a new folder")
    old = f"{folder}.{os.getpid()}.old"
    draft = f"{folder}.{os.getpid()}.new"
    try:
        _lay(tree, draft, 0o777)
        if os.path.lexists(folder):
            os.rename(folder, old)  # from here to the next line there is none: a folder cannot be replaced by a rename
        try:
            os.rename(draft, folder)
        except OSError:
            if os.path.lexists(old):
                os.rename(old, folder)
            raise
    finally:
        _remove(draft)
        _remove(old)
    return {"facade": folder, "key": name, "links": len(tree), "torch": torch, "build_id": finder.build["id"]}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
