"""Make each sync of a run slower: a folder in memory, whose syncs take nothing, stands for a disk."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

SOURCE = """
#include <time.h>
#include <sys/syscall.h>
#include <unistd.h>
static int slow(long number, int file) {
  struct timespec pause = {0, MICROSECONDS * 1000L};
  nanosleep(&pause, 0);
  return syscall(number, file);
}
int fsync(int file) { return slow(SYS_fsync, file); }
int fdatasync(int file) { return slow(SYS_fdatasync, file); }
"""


def run_again(milliseconds: float) -> None:
    """Run this program again, each sync of it and of its children slower; never returns (needs cc)."""
    folder = tempfile.mkdtemp(prefix="slow-sync-")
    os.chmod(folder, 0o755)
    library = f"{folder}/slow.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", library],
        input=SOURCE.replace("MICROSECONDS", str(int(milliseconds * 1000))).encode(),
        check=True,
    )
    os.environ["LD_PRELOAD"] = library
    os.execv(sys.executable, [sys.executable, *sys.argv])
