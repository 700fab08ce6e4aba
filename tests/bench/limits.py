"""Part 5: what zlib and sha256 take on this machine for the same bytes. `limits.py WHEEL MEMBER...` prints JSON.

A process of its own, for the memory of the one that measures shows in what it measures.
"""

import hashlib
import json
import struct
import sys
import time
import zipfile
import zlib

PIECE = 1 << 20
EVERY = 16  # of so many pieces one is compressed: a sample of all parts of all libraries
LOCAL_HEADER = struct.Struct("<26xHH")


def clocked(function, *words):
    begin = time.process_time()
    result = function(*words)
    return result, time.process_time() - begin


def compressed(wheel, member):
    """The raw deflate stream of a member, in pieces."""
    with open(wheel, "rb") as file:
        file.seek(member.header_offset)
        name, extra = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
        file.seek(name + extra, 1)
        left = member.compress_size
        while left:
            piece = file.read(min(PIECE, left))
            left -= len(piece)
            yield piece


def main():
    wheel, *names = sys.argv[1:]
    inflate = size = count = 0
    pieces = []
    with zipfile.ZipFile(wheel) as archive:
        members = [archive.getinfo(name) for name in names]
    for member in members:
        stream = zlib.decompressobj(-15)
        for packed in compressed(wheel, member):
            piece, took = clocked(stream.decompress, packed)
            inflate += took
            size += len(piece)
            count += 1
            if count % EVERY == 0:
                pieces.append(piece[:PIECE])
    sample = b"".join(pieces)
    packed, deflate = clocked(zlib.compress, sample, 6)
    _, sha256 = clocked(lambda: [hashlib.sha256(sample) for _ in range(4)])
    rates = {
        "inflate": size / inflate,
        "deflate": len(sample) / deflate,
        "sha256": 4 * len(sample) / sha256,
    }
    print(json.dumps({"bytes": size, "sample": len(sample), "shrunk": len(packed) / len(sample), "rates": rates}))


if __name__ == "__main__":
    main()
