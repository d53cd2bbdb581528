"""A workload that says what it emitted: instants "tick", each with its number. Argument 1: a descriptor of a shared page whose
first two words are the number of ticks begun and done, so that the truth survives SIGKILL. Argument 2: bytes of random text
that each tick carries beside its number, so that compression does not make the events small. Commands on stdin, one a line:
    N        emits N ticks, answers their sum so far; also ends `run`
    run K    emits K ticks per millisecond until the next command, answers nothing
    slow     twelve steps of a millisecond, then one of 40
"""
import ctypes
import mmap
import os
import select
import sys

import meridian
from wait import let_it_run

lib = meridian._lib
domain = ctypes.c_void_p(lib.mrd_domain_create(b"test"))
stdin = open(0, "rb", buffering=0)  # select() must see what is not read yet
number = (meridian._Kv * 2)(meridian._Kv(b"i", meridian._I64), meridian._Kv(b"text", meridian._TEXT))
text = int(sys.argv[2])
truth = (ctypes.c_uint64 * 2).from_buffer(mmap.mmap(int(sys.argv[1]), mmap.PAGESIZE))


def emit(n):
    value, args = number[0].v, 2 if text else 1
    for i in range(truth[0] + 1, truth[0] + n + 1):
        value.i = truth[0] = i
        if text:
            number[1].v.text = os.urandom((text + 1) // 2).hex().encode()[:text]
        lib.mrd_instant_(domain, b"tick", 0, number, args)
        truth[1] = i


def run(per_ms):
    """In bursts of at least a tick, until there is another command."""
    while not select.select([stdin], [], [], 0.002)[0]:
        emit(max(1, int(2 * per_ms)))


def steps():
    lib.mrd_now.restype = ctypes.c_uint64
    first = lib.mrd_now()
    let_it_run(0.01)
    millisecond = (lib.mrd_now() - first) // 10
    for length in [1] * 12 + [40]:
        end = lib.mrd_now()
        lib.mrd_span(domain, b"step", ctypes.c_uint64(end - length * millisecond), ctypes.c_uint64(end), None, ctypes.c_size_t(0))


lib.mrd_instant_(domain, b"hello", 0, None, 0)  # makes the ring
print(0, flush=True)
for line in iter(stdin.readline, b""):
    words = line.split()
    if words[0] == b"run":
        run(float(words[1]))
        continue
    if words[0] == b"slow":
        steps()
    else:
        emit(int(words[0]))
    print(truth[1], flush=True)
