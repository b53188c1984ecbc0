"""Real jobs on real files: copy in and out, zip, unzip, checksum, find, checkout (docs/guide/job.md)."""
