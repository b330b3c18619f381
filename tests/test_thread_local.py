# SPDX-License-Identifier: Apache-2.0
"""What libpto keeps for each thread: the loader has little room for libraries that come late."""

import struct
from pathlib import Path

import pto

LIBRARY = Path(pto.__file__).parent / "lib" / "libpto.so"
PT_TLS = 7
MOST = 1584  # bytes: with more of them libgomp, which PyTorch brings, no longer loads behind libpto


def test_thread_local_memory_leaves_room_for_other_libraries():
    """Keep a pointer for the thread, not the object: `static thread_local std::unique_ptr<T>`."""
    data = LIBRARY.read_bytes()
    table, entry, count = (struct.unpack_from(form, data, at)[0]
                           for form, at in (("<Q", 32), ("<H", 54), ("<H", 56)))  # fmt: skip
    headers = [struct.unpack_from("<IIQQQQQQ", data, table + i * entry) for i in range(count)]
    (own,) = [header for header in headers if header[0] == PT_TLS]
    assert own[6] <= MOST, f"{own[6]} bytes for each thread, at most {MOST}"
