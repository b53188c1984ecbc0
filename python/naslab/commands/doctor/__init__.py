"""What this machine has, what a target is and may be used for, and what to fix.

`machine` looks at this machine, `checkup` at a target, step by step; `advice` turns what they found into words.
Nothing here measures for a result: times are hints for people.
"""

from naslab.commands.doctor.advice import Advice
from naslab.commands.doctor.checkup import Checkup, Right, Step, check_target
from naslab.commands.doctor.machine import describe_machine, machine_advice

__all__ = ["Advice", "Checkup", "Right", "Step", "check_target", "describe_machine", "machine_advice"]
