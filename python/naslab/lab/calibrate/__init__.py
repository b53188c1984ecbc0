"""Calibration: each planted limit of a lab system, measured with a tool that is not naslab.

with naslab.lab.running("single-xfs") as server:
    found = calibrate(server, scratch=True)
print(found.holds, found.measured("disks.read"))
"""

from naslab.lab.calibrate.finding import HOLDS, MISSES, UNMEASURED, Calibration, Finding
from naslab.lab.calibrate.records import find, keep, limits_of
from naslab.lab.calibrate.run import QUICK, THOROUGH, calibrate, calibrate_system

__all__ = [
    "HOLDS", "MISSES", "QUICK", "THOROUGH", "UNMEASURED", "Calibration", "Finding", "calibrate", "calibrate_system",
    "find", "keep", "limits_of",
]  # fmt: skip
