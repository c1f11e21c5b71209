"""What machines are told at their first boot, as Ignition configs: parts of them, and how two are made one. Pure.

The parts are the reference cluster's too; who a machine is comes as a value (`machines`).
"""
