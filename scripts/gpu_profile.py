#!/usr/bin/env python3
"""Turns the CSV of gpu-profile.sh into a table: kernels by time, and for slow ones the likely reason.

    gpu_profile.py FILE.csv [PEAK_GB_PER_S]

Times and bytes are those of the launches that were looked at, with cold caches, as Nsight Compute empties them before each.
A kernel is slow if it moves less than 40 % of what a copy moves a second. The reason is a guess from counters:

    launch-bound          a launch takes less than 5 us
    tiny grid             fewer blocks than multiprocessors
    atomics               much of what the second-level cache does is atomics, and warps wait for memory
    L2-bound              the second-level cache is busier than memory, and over 60 %
    computing             the multiprocessors are busy over 60 %
    else                  what warps wait for most, and the share of warps that are there if these are few
"""
import csv
import re
import signal
import sys

# Ends quietly where a pipe such as `| head -1` reads no further.
signal.signal(signal.SIGPIPE, signal.SIG_DFL)

STALLS = {
    "long_scoreboard": "latency of dependent loads",
    "lg_throttle": "too many loads, stores or atomics at once",
    "drain": "stores at the end",
    "barrier": "barrier",
    "membar": "fence",
    "sleeping": "waiting for other blocks",
    "short_scoreboard": "shared memory",
    "mio_throttle": "shared memory",
    "wait": "dependent arithmetic",
    "math_pipe_throttle": "computing",
    "not_selected": "computing",
    "selected": "computing",
    "branch_resolving": "branches",
    "no_instruction": "instruction cache",
    "dispatch_stall": "dispatch",
    "imc_miss": "constants",
    "tex_throttle": "too many loads at once",
    "misc": "misc",
}
SCALES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def number(text):
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def scaled(value, unit):
    """In seconds, bytes or as it is."""
    if unit in ("second", "s", "byte", "%", "") or not unit:
        return value
    words = {"nsecond": 1e-9, "usecond": 1e-6, "msecond": 1e-3, "ns": 1e-9, "us": 1e-6, "ms": 1e-3}
    if unit in words:
        return value * words[unit]
    match = re.fullmatch(r"([KMGT])byte", unit)
    if match:
        return value * SCALES[match[1]]
    return value


def launches(path):
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    if not rows:
        return
    header, units = rows[0], rows[1]
    for row in rows[2:]:
        if len(row) != len(header):
            continue
        launch = {}
        for name, unit, text in zip(header, units, row):
            value = number(text)
            launch[name] = scaled(value, unit) if value is not None and name != "Kernel Name" else text
        yield launch


def first(launch, *names):
    """The first of some counters that is there."""
    for name in names:
        if isinstance(launch.get(name), float):
            return launch[name]
    return None


class Kernel:
    def __init__(self):
        self.sums = {}
        self.weights = {}
        self.launches = 0
        self.time = 0.0
        self.bytes = 0.0
        self.stalls = {}

    def add(self, launch):
        time = first(launch, "gpu__time_duration.sum") or 0.0
        self.launches += 1
        self.time += time
        self.bytes += first(launch, "dram__bytes.sum") or 0.0
        for name, value in launch.items():
            if isinstance(value, float):
                # Means over launches, by time.
                self.sums[name] = self.sums.get(name, 0.0) + value * time
                self.weights[name] = self.weights.get(name, 0.0) + time
            match = re.search(r"issue_stalled_(\w+?)(?:_not_issued)?(?:_per_issue_active|_per_warp_active|\.)", name)
            if match and isinstance(value, float) and "not_issued" not in name:
                self.stalls[match[1]] = self.stalls.get(match[1], 0.0) + value * time

    def mean(self, *names):
        for name in names:
            if self.weights.get(name):
                return self.sums[name] / self.weights[name]
        return 0.0

    def reason(self):
        if self.time / self.launches < 5e-6:
            return "launch-bound"
        grid = self.mean("launch__grid_size")
        processors = self.mean("device__attribute_multiprocessor_count") or 132
        if 0 < grid < processors:
            return f"tiny grid ({grid:.0f} blocks)"
        stalls = sorted(self.stalls.items(), key=lambda item: -item[1])
        stalls = [(name, value) for name, value in stalls if name not in ("selected", "not_selected")]
        total = sum(value for _, value in stalls) or 1.0
        words = ""
        if stalls:
            name, value = stalls[0]
            words = f"{STALLS.get(name, name)} ({value / total * 100:.0f} % of stalls)"
        sectors = self.mean("lts__t_sectors.sum")
        atomics = self.mean("lts__t_sectors_op_atom.sum") + self.mean("lts__t_sectors_op_red.sum")
        if sectors and atomics / sectors > 0.2:
            return f"atomics ({atomics / sectors * 100:.0f} % of L2 sectors); {words}"
        cache = self.mean("lts__throughput.avg.pct_of_peak_sustained_elapsed")
        memory = self.mean("dram__throughput.avg.pct_of_peak_sustained_elapsed")
        if cache > 60 and cache > memory:
            return f"L2-bound ({cache:.0f} %)"
        busy = self.mean("sm__throughput.avg.pct_of_peak_sustained_elapsed")
        if busy > 60:
            return f"computing ({busy:.0f} %)"
        occupancy = self.occupancy()
        few = f"; few warps ({occupancy:.0f} %)" if 0 < occupancy < 40 else ""
        return words + few

    def occupancy(self):
        return self.mean("sm__warps_active.avg.pct_of_peak_sustained_active")


def main():
    path = sys.argv[1]
    peak = float(sys.argv[2]) if len(sys.argv) > 2 else 4300.0
    kernels = {}
    for launch in launches(path):
        name = str(launch.get("Kernel Name", "?"))
        name = re.sub(r"\(.*", "", name)
        kernels.setdefault(name, Kernel()).add(launch)
    if not kernels:
        sys.exit(f"{path}: no launches")
    print("| kernel | launches | us | DRAM MB | DRAM GB/s | % of peak | L2 % | SM % | warps % | registers | why |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|")
    for name, kernel in sorted(kernels.items(), key=lambda item: -item[1].time):
        speed = kernel.bytes / kernel.time / 1e9 if kernel.time else 0.0
        share = speed / peak * 100
        cells = [
            name.removesuffix("_kernel"),
            str(kernel.launches),
            f"{kernel.time * 1e6:.1f}",
            f"{kernel.bytes / 1e6:.2f}",
            f"{speed:.0f}",
            f"{share:.0f}",
            f"{kernel.mean('lts__throughput.avg.pct_of_peak_sustained_elapsed'):.0f}",
            f"{kernel.mean('sm__throughput.avg.pct_of_peak_sustained_elapsed'):.0f}",
            f"{kernel.occupancy():.0f}",
            f"{kernel.mean('launch__registers_per_thread'):.0f}",
            kernel.reason() if share < 40 else "",
        ]
        print("| " + " | ".join(cells) + " |")


main()
