//! Placeholder until its first commit in this session.
