#!/usr/bin/env python3
"""A data-parallel training loop that calls the Neuron runtime through ctypes. It does the same as train_loop.c.

Each process is a rank, and each NeuronCore is a worker with a thread of its own. The program starts its ranks itself,
unless a launcher has started it as one rank (RANK, WORLD_SIZE, LOCAL_RANK, or Slurm's variables for these). It loads
libnrt.so.1 by name, so LD_LIBRARY_PATH chooses the runtime. It makes annotations if the meridian module is installed.

    LD_LIBRARY_PATH=build/lib/simnrt examples/train_loop.py --ranks 2 --cores 2 --steps 10
"""
import argparse
import contextlib
import ctypes
import os
import subprocess
import sys
import threading

try:
    import meridian
except ImportError:
    meridian = None

BATCH = 64 * 64 * 4
DEVICE = 0  # nrt_tensor_placement_t


class Nrt:
    """The functions of libnrt that this program calls. Declares the types that ctypes cannot derive."""

    def __init__(self):
        self.lib = ctypes.CDLL("libnrt.so.1")
        p, i, u, z, s = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_char_p
        for name, args in {
            "nrt_init": [i, s, s],
            "nrt_build_global_comm": [i, u, u],
            "nrt_load_collectives": [p, z, i, i, u, u, p],
            "nrt_unload": [p],
            "nrt_tensor_allocate": [i, i, z, s, p],
            "nrt_tensor_write": [p, p, z, z],
            "nrt_tensor_read": [p, p, z, z],
            "nrt_allocate_tensor_set": [p],
            "nrt_add_tensor_to_tensor_set": [p, s, p],
            "nrt_execute": [p, p, p],
        }.items():
            function = getattr(self.lib, name)
            function.argtypes, function.restype = args, ctypes.c_int
            setattr(self, name, self.checked(name, function))
        self.lib.nrt_get_status_as_str.restype = ctypes.c_char_p
        for name in ("nrt_tensor_free", "nrt_destroy_tensor_set"):
            function = getattr(self.lib, name)
            function.argtypes, function.restype = [p], None
            setattr(self, name, function)
        self.nrt_close = self.lib.nrt_close
        self.nrt_close.restype = None

    def checked(self, name, function):
        def call(*args):
            status = function(*args)
            if status != 0:
                text = self.lib.nrt_get_status_as_str(status).decode()
                raise RuntimeError(f"{name}: {text}")
        return call


def span(name, **args):
    """Returns a scope annotation, or a context that does nothing if the meridian module is missing."""
    if meridian is None or not hasattr(meridian, "span"):
        return contextlib.nullcontext()
    return meridian.scope(name, **args)


class Worker(threading.Thread):
    def __init__(self, nrt, opt, core, neff):
        super().__init__(name=f"worker {opt.rank * opt.cores + core}")
        self.nrt, self.opt, self.core = nrt, opt, core
        self.done, self.error = 0, None
        self.model, self.batch, self.loss = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.inputs, self.outputs = ctypes.c_void_p(), ctypes.c_void_p()
        gid, count = opt.rank * opt.cores + core, opt.ranks * opt.cores
        nrt.nrt_build_global_comm(core, gid, count)
        nrt.nrt_load_collectives(neff, len(neff), core, -1, gid, count, ctypes.byref(self.model))
        nrt.nrt_tensor_allocate(DEVICE, core, BATCH, b"batch", ctypes.byref(self.batch))
        nrt.nrt_tensor_allocate(DEVICE, core, 4, b"loss", ctypes.byref(self.loss))
        for tensors, name, tensor in ((self.inputs, b"batch", self.batch), (self.outputs, b"loss", self.loss)):
            nrt.nrt_allocate_tensor_set(ctypes.byref(tensors))
            nrt.nrt_add_tensor_to_tensor_set(tensors, name, tensor)

    def step(self, step, data):
        with span("load batch", step=step):
            self.nrt.nrt_tensor_write(self.batch, data, 0, BATCH)
        with span("forward backward", step=step):
            self.nrt.nrt_execute(self.model, self.inputs, self.outputs)
        loss = ctypes.c_float()
        self.nrt.nrt_tensor_read(self.loss, ctypes.byref(loss), 0, 4)

    def checkpoint(self, step):
        with span("checkpoint", step=step):
            data = ctypes.create_string_buffer(BATCH)
            self.nrt.nrt_tensor_read(self.batch, data, 0, BATCH)
            with open(os.path.join(self.opt.checkpoint_dir, f"checkpoint_{step:06d}.bin"), "wb") as f:
                f.write(data.raw)

    def run(self):
        data = ctypes.create_string_buffer(BATCH)
        every = self.opt.checkpoint_every
        try:
            for step in range(self.opt.steps):
                self.step(step, data)
                self.done += 1
                if self.core == 0 and self.opt.rank == 0 and every and (step + 1) % every == 0:
                    self.checkpoint(step + 1)
        except Exception as error:  # the main thread reports the error
            self.error = error

    def close(self):
        for tensors in (self.inputs, self.outputs):
            self.nrt.nrt_destroy_tensor_set(ctypes.byref(tensors))
        for tensor in (self.batch, self.loss):
            self.nrt.nrt_tensor_free(ctypes.byref(tensor))
        self.nrt.nrt_unload(self.model)


def run_rank(opt):
    if opt.straggler is not None and opt.straggler // opt.cores == opt.rank:
        fault = f"slow_core:core={opt.straggler % opt.cores}:factor={opt.factor}"
        more = os.environ.get("SIMNRT_FAULT")
        os.environ["SIMNRT_FAULT"] = fault + ("," + more if more else "")
    if "NEURON_RT_VISIBLE_CORES" not in os.environ and "NEURON_RT_NUM_CORES" not in os.environ:
        local = os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", opt.rank))
        first = int(local) * opt.cores
        os.environ["NEURON_RT_VISIBLE_CORES"] = f"{first}-{first + opt.cores - 1}"
    neff = (f"SIMNEFF 1\nname=train_step\nexec_us={opt.exec_us}\ncc={opt.cc}\n"
            "input=batch:float32:64x64\noutput=loss:float32:1\n").encode()
    nrt = Nrt()
    nrt.nrt_init(1, b"", b"")
    workers = [Worker(nrt, opt, core, neff) for core in range(opt.cores)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    errors = [str(worker.error) for worker in workers if worker.error]
    done = sum(worker.done for worker in workers) // opt.cores
    for worker in workers:
        worker.close()
    nrt.nrt_close()
    for error in errors:
        print(f"train_loop: rank {opt.rank}: {error}", file=sys.stderr)
    if not opt.quiet:
        # in one write, because the ranks share the terminal and their lines would mix
        sys.stdout.write(f"rank {opt.rank}: {done} steps on {opt.cores} cores" + (", FAILED\n" if errors else "\n"))
    return 1 if errors else 0


def spawn_ranks(opt):
    ranks = []
    for rank in range(opt.ranks):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(opt.ranks))
        ranks.append(subprocess.Popen([sys.executable, *sys.argv], env=env))
    return max(rank.wait() for rank in ranks)


def straggler(text):
    worker, _, factor = text.partition(":")
    return int(worker), float(factor or 3)


def main():
    env = os.environ
    rank, ranks = env.get("RANK", env.get("SLURM_PROCID")), env.get("WORLD_SIZE", env.get("SLURM_NTASKS"))
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--ranks", type=int, default=1, help="processes; started here unless a launcher says which")
    p.add_argument("--rank", type=int, help="be this rank of a launched set")
    p.add_argument("--cores", type=int, default=2, help="NeuronCores per rank")
    p.add_argument("--exec-us", type=int, default=4000, help="device time of a step in microseconds")
    p.add_argument("--cc", type=int, default=8, help="collectives per step")
    p.add_argument("--straggler", type=straggler, metavar="W[:F]", help="worker W computes F times as long")
    p.add_argument("--checkpoint-every", type=int, default=10)
    p.add_argument("--checkpoint-dir", default=".")
    p.add_argument("--quiet", action="store_true")
    opt = p.parse_args()
    opt.straggler, opt.factor = opt.straggler or (None, 0)
    if rank is not None and ranks is not None and opt.rank is None:
        opt.rank, opt.ranks = int(rank), int(ranks)
    return run_rank(opt) if opt.rank is not None else spawn_ranks(opt)


if __name__ == "__main__":
    sys.exit(main())
