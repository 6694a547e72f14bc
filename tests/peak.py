"""Peak memory of a snippet, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

# Not ru_maxrss, which a child inherits from its parent.
TAIL = """
with open("/proc/self/status") as lines:
    print("PEAK", next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")))
"""


def peak_bytes(snippet: str) -> tuple[int, str]:
    """Run Python code; return the most memory it ever held, and what it printed."""
    code = textwrap.dedent(snippet) + TAIL
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed, _, peak = done.stdout.rpartition("PEAK ")
    return int(peak), printed
