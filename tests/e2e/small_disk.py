"""Makes a small file system for tests that fill a disk. Needs root."""
import os
import subprocess

from lib import skip


class SmallDisk:
    """A tmpfs of so many megabytes."""

    def __init__(self, path, megabytes):
        self.path = path
        os.makedirs(path, exist_ok=True)
        p = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}M", "tmpfs", path], capture_output=True, text=True)
        if p.returncode != 0:
            skip(f"no small file system can be mounted (root is needed): {p.stderr.strip()}")

    def fill(self):
        """Takes all that is left."""
        with open(os.path.join(self.path, "filler"), "wb", buffering=0) as f:
            size = 1 << 20
            while size > 0:
                try:
                    f.write(bytes(size))
                except OSError:
                    size //= 2

    def empty(self):
        os.unlink(os.path.join(self.path, "filler"))

    def close(self):
        subprocess.run(["umount", "-l", self.path], check=False)
