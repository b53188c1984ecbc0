"""What limits a server: the attribution ladder, its evidence, the verdict, and what a changed part would do.

The method is FIELD.md 6.6's: each step adds one resource (requests in flight, connections, bytes per request, bytes
in the working set, time) and sees whether the rate grows. The limit is the step where adding stops helping.
"""
