"""A rank of a job on the simulated runtime: an execution and an all-gather in each step, until a line on stdin says otherwise.

    sleep S      computes nothing for so long before its next execution
    work S       burns CPU for so long before its next execution
    barrier      enters a barrier instead of the next execution
    exit         ends before its next execution

Usage: hang_rank.py RANK WORLD. Prints the number of steps, ten times a second."""
import ctypes
import os
import select
import sys
import time

from wait import let_it_run

nrt = ctypes.CDLL("libnrt.so.1", mode=ctypes.RTLD_GLOBAL)
rank, world = int(sys.argv[1]), int(sys.argv[2])
P, U = ctypes.c_void_p, ctypes.c_uint32


def tensor(size):
    t = P()
    nrt.nrt_tensor_allocate(0, 0, ctypes.c_size_t(size), b"t", ctypes.byref(t))
    return t


def obey(line):
    verb, *args = line.split()
    end = time.monotonic() + float(args[0]) if args else 0
    if verb == "sleep":
        let_it_run(float(args[0]))
    while verb == "work" and time.monotonic() < end:
        pass
    if verb == "barrier":
        nrt.nrt_barrier(0, U(rank), U(world))
    if verb == "exit":
        os._exit(0)


text = b"SIMNEFF 1\nname=train\nexec_us=4000\ncc=4\ntensor_frees=0\ncopyins=0\n"
model, ins, outs = P(), P(), P()
nrt.nrt_init(1, b"rank", b"")
status = nrt.nrt_load_collectives(text, ctypes.c_size_t(len(text)), 0, 1, U(rank), U(world), ctypes.byref(model))
nrt.nrt_allocate_tensor_set(ctypes.byref(ins))
nrt.nrt_allocate_tensor_set(ctypes.byref(outs))
mine, all_of = tensor(64), tensor(64 * world)
print("loaded", status, flush=True)
steps, said = 0, 0.0
while True:
    if select.select([sys.stdin], [], [], 0)[0]:
        obey(sys.stdin.readline() or "exit")
    status = nrt.nrt_execute(model, ins, outs) or nrt.nrt_all_gather(0, U(rank), U(world), U(64), mine, all_of)
    steps += 1
    if time.monotonic() > said + 0.1:
        said = time.monotonic()
        print(steps, status, flush=True)
