# SPDX-License-Identifier: Apache-2.0
"""What the emulated machines of this folder have in common: the archive that a kernel starts with, a boot in
QEMU, and the verdicts that the checks in there print.

A machine's process 1 prints "ok NAME: what it saw", "FAILED NAME: ..." or "skipped NAME: why" on its console,
and "end of checks" at last. A machine's program ends with a line "N passed, N failed, N skipped", and with
exit status 0 if none failed; 77: something is not installed.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
MISSING = 77
# On a console, also in lines of programs.
TROUBLE = re.compile(r"Internal error|Oops|Kernel panic|BUG:|Unhandled fault|imprecise|soft lockup|segfault"
                     r"|unhandled level|general protection|rcu_\w+ detected stalls|hung_task", re.I)


def say(text):
    print(text, flush=True)


def cannot(why):
    """Ends the program: it cannot be run here."""
    say(f"{pathlib.Path(sys.argv[0]).name}: {why}")
    say("0 passed, 0 failed, 1 skipped")
    sys.exit(MISSING)


def need(*tools):
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for tool in tools:
        if not shutil.which(tool):
            cannot(f"no {tool}: apt-get install --no-install-recommends "
                   + " ".join((HERE / "packages.txt").read_text().split()))


def fetch(arch, name, *packages):
    """The folder of the user's cache that holds these packages of an architecture."""
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "sunxi/cross" / name
    status = subprocess.run([HERE / "fetch", arch, folder, *packages], check=False).returncode
    if status == MISSING:
        cannot("packages cannot be fetched")
    if status:
        sys.exit(status)
    return folder


class Root:
    """A root file system that grows by what checks need, of Debian packages that are unpacked in a folder."""

    def __init__(self, path, triplet, source):
        self.path, self.triplet, self.source = path, triplet, source
        for name in ("dev", "proc", "sys", "run", "etc", "tmp", "root", "usr/bin", f"usr/lib/{triplet}"):
            (path / name).mkdir(parents=True)
        for name, target in (("bin", "usr/bin"), ("sbin", "usr/bin"), ("usr/sbin", "bin"), ("lib", "usr/lib")):
            (path / name).symlink_to(target)

    def copy(self, source, target, mode=None):
        """target: from the root on."""
        path = self.path / target
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, path)
        if mode is not None:
            path.chmod(mode)

    def library(self, name):
        """A library, and what it is linked to."""
        if not (self.path / "usr/lib" / self.triplet / name).exists():
            places = (self.source / folder / self.triplet / name for folder in ("lib", "usr/lib"))
            source = next((place for place in places if place.exists()), None)
            if not source:
                cannot(f"no {name} in {self.source}")
            self.copy(source, f"usr/lib/{self.triplet}/{name}")
            if name.startswith("ld-linux"):
                (self.path / "usr/lib" / name).symlink_to(f"{self.triplet}/{name}")
            self.libraries(source)

    def libraries(self, program):
        text = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True).stdout
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", text):
            self.library(name)

    def program(self, source, target):
        """A program, or a library that is loaded, with what it is linked to."""
        self.copy(source, target, 0o755)
        self.libraries(source)

    def pack(self, archive):
        names = "\n".join(str(path.relative_to(self.path)) for path in sorted(self.path.rglob("*")))
        with open(archive, "wb") as file:
            subprocess.run(["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"], cwd=self.path,
                           input=names.encode(), stdout=file, check=True)
        return archive


def boot(command, timeout, verbose=False):
    """Runs QEMU until the checks have ended; returns the console's lines and the seconds it took."""
    command = ["setpriv", "--pdeathsig", "KILL", command[0], "-display", "none", "-nic", "none", "-no-reboot",
               "-no-user-config", "-serial", "stdio", "-monitor", "none", *command[1:]]
    start = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as qemu:
        signal.signal(signal.SIGALRM, lambda *_: qemu.kill())
        signal.alarm(timeout)
        lines = []
        for line in qemu.stdout:  # ends with the machine
            lines.append(line.decode(errors="replace").rstrip())
            if verbose:
                say("    " + lines[-1])
            if lines[-1] == "end of checks" or "Kernel panic" in lines[-1]:
                break
        signal.alarm(0)
        qemu.kill()
    return lines, time.monotonic() - start


class Verdicts:
    """Counts what was printed."""

    def __init__(self):
        self.counts = {"ok": 0, "FAILED": 0, "skipped": 0}

    def add(self, word, name, text):
        self.counts[word] += 1
        say(f"{word} {name}: {text}")

    def judge(self, name, wanted, lines, seconds):
        """Prints the verdicts of one boot, in which each of wanted must have been checked."""
        failed = self.counts["FAILED"]
        seen = set()
        for line in lines:
            if match := re.match(r"(ok|FAILED|skipped) ([\w-]+): ?(.*)$", line):
                seen.add(match[2])
                self.add(match[1], f"{name}.{match[2]}", match[3])
        for check in wanted:
            if check not in seen:
                self.add("FAILED", f"{name}.{check}", "the machine did not come that far")
        trouble = next((line for line in lines if TROUBLE.search(line)), None)
        ended = "end of checks" in lines
        self.add("ok" if ended and not trouble else "FAILED", f"{name}.kernel",
                 (trouble or ("no fault, no hang" if ended else "it hung, or did not boot")) + f" ({seconds:.0f} s)")
        if self.counts["FAILED"] != failed:
            say("\n".join(["the end of the console:", *lines[-40:]]))

    def status(self):
        say("{ok} passed, {FAILED} failed, {skipped} skipped".format(**self.counts))
        return 1 if self.counts["FAILED"] else 0
