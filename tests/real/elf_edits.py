"""Small edits of 64-bit little-endian ELF files, in place: what a careless tool or another compiler leaves behind.

The layouts are the gABI's (chapters 4 and 5) and, for versions, those of the Linux Standard Base (Symbol Versioning).
"""

import mmap
import struct

PT_LOAD, PT_DYNAMIC, PT_GNU_STACK = 1, 2, 0x6474E551
DT_STRTAB, DT_RELA, DT_RELASZ, DT_STRSZ, DT_VERNEED, DT_VERNEEDNUM = 5, 7, 8, 10, 0x6FFFFFFE, 0x6FFFFFFF
DTPMOD64, TPOFF64 = 16, 18
AARCH64 = 183


class Elf:
    """A file that is mapped for writing; it must be a copy of its own."""

    def __init__(self, path):
        with open(path, "r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), 0)
        assert self.bytes[:6] == b"\x7fELF\x02\x01"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bytes.close()

    def get(self, form, at):
        return struct.unpack_from("<" + form, self.bytes, at)

    def put(self, form, at, *values):
        struct.pack_into("<" + form, self.bytes, at, *values)

    def segments(self):
        """Where each program header lies, and its type, flags, offset, vaddr, paddr, filesz, memsz, align."""
        (start,), (size, count) = self.get("Q", 32), self.get("HH", 54)
        return [(at, *self.get("IIQQQQQQ", at)) for at in range(start, start + size * count, size)]

    def segment(self, kind):
        return next(segment for segment in self.segments() if segment[1] == kind)

    def offset(self, address):
        for _, kind, _, offset, vaddr, _, filesz, _, _ in self.segments():
            if kind == PT_LOAD and vaddr <= address < vaddr + filesz:
                return offset + address - vaddr
        raise ValueError(f"{address:#x} is in no segment of the file")

    def dynamic(self):
        _, _, _, at, _, _, size, _, _ = self.segment(PT_DYNAMIC)
        return dict(self.get("qQ", here) for here in range(at, at + size, 16))

    def strings(self):
        dynamic = self.dynamic()
        return self.offset(dynamic[DT_STRTAB]), dynamic[DT_STRSZ]

    def string(self, text):
        """The place of a whole string in the string table."""
        start, size = self.strings()
        found = self.bytes.find(b"\0" + text.encode() + b"\0", start, start + size)
        assert found >= 0, text
        return found + 1 - start

    def rename(self, old, new):
        """A string of the table, and so the symbol of that name; a hash table goes on looking for the old one."""
        assert len(old) == len(new)
        at = self.strings()[0] + self.string(old)
        self.bytes[at : at + len(new)] = new.encode()

    def versions_needed(self):
        """Where each `Verneed` lies, and those of its `Vernaux`, by the names of file and version."""
        dynamic, names = self.dynamic(), self.strings()[0]
        at, found = self.offset(dynamic[DT_VERNEED]), {}
        for _ in range(dynamic[DT_VERNEEDNUM]):
            _, count, file, first, following = self.get("HHIII", at)
            inner, versions = at + first, {}
            for _ in range(count):
                _, _, _, name, step = self.get("IHHII", inner)
                versions[self.text(names + name)] = inner
                inner += step
            found[self.text(names + file)] = at, versions
            at += following
        return found

    def text(self, at):
        return self.bytes[at : self.bytes.find(b"\0", at)].decode()

    def relocations(self):
        """Where each entry of DT_RELA lies, and its type and symbol."""
        dynamic = self.dynamic()
        start = self.offset(dynamic[DT_RELA])
        for at in range(start, start + dynamic[DT_RELASZ], 24):
            kind, symbol = self.get("II", at + 8)
            yield at, kind, symbol


def for_another_machine(path):
    with Elf(path) as elf:
        elf.put("H", 18, AARCH64)


def ask_for_an_executable_stack(path):
    with Elf(path) as elf:
        at, _, flags, *_ = elf.segment(PT_GNU_STACK)
        elf.put("I", at + 4, flags | 1)


def misalign(path):
    """A PT_LOAD that lies at another place in memory than in the file asks for more than the two allow."""
    with Elf(path) as elf:
        for at, kind, _, offset, vaddr, _, _, _, align in elf.segments():
            if kind == PT_LOAD and vaddr != offset:
                while (vaddr - offset) % align == 0:
                    align *= 2
                elf.put("Q", at + 48, align)
                return f"PT_LOAD at {vaddr:#x}"
        raise ValueError(f"{path}: memory and file have one layout")


def rename(path, old, new):
    with Elf(path) as elf:
        elf.rename(old, new)


def need_versions_of(path, file, other):
    """Versions of `file` are needed of `other`, the end of its name, as if DT_NEEDED had been renamed alone."""
    assert file.endswith(other)
    with Elf(path) as elf:
        at, _ = elf.versions_needed()[file]
        elf.put("I", at + 4, elf.string(file) + len(file) - len(other))


def need_version(path, file, version, other):
    """Another version of `file`, by a name that the string table has."""
    with Elf(path) as elf:
        at = elf.versions_needed()[file][1][version]
        elf.put("I", at, elf_hash(other))
        elf.put("I", at + 8, elf.string(other))


def use_initial_exec(path):
    """A thread-local variable of its own as `-ftls-model=initial-exec` has it."""
    with Elf(path) as elf:
        at = next(at for at, kind, symbol in elf.relocations() if kind == DTPMOD64 and not symbol)
        elf.put("I", at + 8, TPOFF64)


def elf_hash(name):
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high
    return value
