"""Disks of a lab system while it stands: what is built of them, and the process that holds them."""
