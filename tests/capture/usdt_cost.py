"""Checks from the machine code what a USDT probe of libmeridian.so costs while no tool is attached.
It must be one load of the probe's semaphore, a test, and a branch that is not taken. The probe
itself must be in a function of its own. Needs x86-64, objdump and readelf, otherwise the test is
skipped."""
import os
import platform
import re
import shutil
import subprocess
import sys

NAMES = {"begin", "end", "span", "instant", "counter"}
library = os.path.join(os.environ["MERIDIAN_BUILD"], "lib", "libmeridian.so")
if platform.machine() != "x86_64" or not shutil.which("objdump") or not shutil.which("readelf"):
    print("skipped: the machine code is read on x86-64, with objdump and readelf")
    sys.exit(77)


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


notes = re.findall(r"Provider: meridian\s+Name: (\w+)\s+Location: 0x([0-9a-f]+), Base: \S+, Semaphore: 0x([0-9a-f]+)", output("readelf", "-nW", library))
probes = {name: (int(place, 16), int(semaphore, 16)) for name, place, semaphore in notes}
assert set(probes) == NAMES, probes
# (address, instruction, operands, function) of the whole library.
code, function = [], None
for line in output("objdump", "-d", "--no-show-raw-insn", library).splitlines():
    head = re.match(r"[0-9a-f]+ <(.+)>:$", line)
    row = re.match(r"\s*([0-9a-f]+):\t(\S+)\s*(.*)$", line)
    if head:
        function = head[1]
    elif row:
        code.append((int(row[1], 16), row[2], row[3], function))
of_place = {address: function for address, _, _, function in code}
checked = 0
for name, (place, semaphore) in probes.items():
    uses = [i for i, (_, _, operands, at) in enumerate(code) if re.search(r"# %x\b" % semaphore, operands) and not at.endswith("register_tm_clones")]
    assert uses, f"{name}: nothing looks at its semaphore"
    for i in uses:
        what = " ; ".join(f"{a:x} {op} {args}" for a, op, args, _ in code[i:i + 3])
        address, op, args, at = code[i]
        if op.startswith("cmpw"):
            assert args.startswith("$0x0,"), what
            branch = code[i + 1]
        else:  # a load, and a test of what was loaded
            load = re.match(r"0x[0-9a-f]+\(%rip\),%(\w+)", args)
            assert op in ("movzwl", "movswl", "mov") and load, what
            test, ends = code[i + 1], load[1][-2:]
            assert test[1] in ("test", "testw", "testl") and set(re.findall(r"%(\w+)", test[2])) <= {load[1], ends}, what
            branch = code[i + 2]
        assert branch[1] == "jne", f"{what}: off is not the way straight on"
        assert of_place[place] != at, f"{name}: its place is in {at}, among what runs while nobody looks"
        checked += 1
print(f"{len(probes)} probes, looked at in {checked} places: a load, a test, a branch not taken")
assert checked >= len(NAMES)
