//! The server through real NFS calls.

mod client;
mod connections;
mod files;
