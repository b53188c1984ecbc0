//! NFS 3, 4.0, 4.1 and 4.2, spoken directly from user space.
