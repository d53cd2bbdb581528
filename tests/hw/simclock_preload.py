"""libsimclock.so under a program that knows nothing of it: clocks and the kernel's packet stamps are wrong by exactly what was asked."""
import ctypes
import os
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "e2e"))
from wait import pace

LIBRARY = os.path.join(os.environ["MERIDIAN_BUILD"], "lib", "simnrt", "libsimclock.so")
RAW, SEC = time.CLOCK_MONOTONIC_RAW, 10**9
PPM, OFFSET, STEP, WALLSTEP = 450, 3 * 3600 * SEC + 17, 250 * 10**6, -1800 * SEC
SO_TIMESTAMPING, RX_SOFTWARE, SOFTWARE = 37, 1 << 3, 1 << 4


def true(library, clock):
    ts = (ctypes.c_long * 2)()
    assert library.simclock_true_gettime(clock, ts) == 0
    return ts[0] * SEC + ts[1]


def between(what, low, got, high):
    assert low - 1 <= got <= high + 1, (what, low, got, high)


def child(epoch):
    library = ctypes.CDLL(LIBRARY)

    def error(raw, wall=False):
        return OFFSET + (raw - epoch) * PPM // 10**6 + STEP * (raw >= epoch + SEC) + WALLSTEP * (wall and raw >= epoch + 2 * SEC)

    seen = set()
    while 2 not in seen:  # before both steps, between them, and after both, unless this began later than that
        raw0, wall0 = true(library, RAW), true(library, time.CLOCK_REALTIME)
        raw, wall, also_wall = time.clock_gettime_ns(RAW), time.clock_gettime_ns(time.CLOCK_REALTIME), time.time_ns()
        wall1, raw1 = true(library, time.CLOCK_REALTIME), true(library, RAW)
        if (raw0 - epoch) // SEC != (raw1 - epoch) // SEC:
            continue  # a step fell between
        seen.add(min((raw0 - epoch) // SEC, 2))
        between("raw", raw0 + error(raw0), raw, raw1 + error(raw1))  # both grow: nothing is assumed about how long this took
        between("wall", wall0 + error(raw0, True), wall, wall1 + error(raw1, True))
        between("time", wall0 + error(raw0, True), also_wall, wall1 + error(raw1, True))
        assert abs(time.monotonic_ns() - true(library, time.CLOCK_MONOTONIC)) < 3600 * SEC, "the monotonic clock stays true"
        pace(0.01)
    stamps(library)


def stamps(library):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        s.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, RX_SOFTWARE | SOFTWARE)
        s.settimeout(60)
        for _ in range(1000):  # the kernel turns its stamps on lazily
            before = time.time_ns()
            s.sendto(b"x", s.getsockname())
            _, control, _, _ = s.recvmsg(16, 256)
            after = time.time_ns()
            for level, kind, data in control:
                if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPING:
                    sec, nsec = struct.unpack_from("qq", data)
                    assert before - 1000 <= sec * SEC + nsec <= after + 1000, (before, sec, nsec, after)
                    return
            pace(0.001)
    raise AssertionError("no stamp")


if len(sys.argv) > 1:
    child(int(sys.argv[1]))
    sys.exit(0)
with open(LIBRARY, "rb") as f:
    if b"__asan_init" in f.read():
        sys.exit(77)
epoch = time.clock_gettime_ns(RAW)
env = dict(os.environ, LD_PRELOAD=LIBRARY,
           MERIDIAN_SIM_CLOCK=f"epoch={epoch},offset={OFFSET}ns,ppm={PPM},step={STEP}ns@1s,wallstep={WALLSTEP}ns@2s")
subprocess.run([sys.executable, __file__, str(epoch)], env=env, check=True, timeout=120)
bad = subprocess.run(["true"], env=dict(env, MERIDIAN_SIM_CLOCK="offset=soon"), capture_output=True, text=True)
assert bad.returncode == 2 and "offset=soon" in bad.stderr, bad
