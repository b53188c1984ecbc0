//! One TCP connection with deadlines and counted bytes, for the protocol clients.
