//! Who is at the other end of a loopback connection. Other users of this machine can reach the port too, and are
//! not served: the server does everything as the user that runs it.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};

/// Whether the client belongs to the user that runs the server, or to root. Where the system keeps no table of
/// connections every client of this machine is taken.
pub(crate) fn is_ours(stream: &TcpStream) -> bool {
    let (Ok(SocketAddr::V4(ours)), Ok(SocketAddr::V4(theirs))) = (stream.local_addr(), stream.peer_addr()) else {
        return false;
    };
    let me = rustix::process::geteuid().as_raw();
    match std::fs::read_to_string("/proc/net/tcp") {
        Ok(table) => owner(&table, theirs, ours).is_some_and(|user| user == 0 || user == me),
        Err(_) => *theirs.ip() == Ipv4Addr::LOCALHOST,
    }
}

/// The user of the socket at `local` that is connected to `remote`, from the text of /proc/net/tcp.
fn owner(table: &str, local: SocketAddrV4, remote: SocketAddrV4) -> Option<u32> {
    let wanted = [local, remote].map(|at| format!("{:08X}:{:04X}", u32::from_ne_bytes(at.ip().octets()), at.port()));
    table.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        if words.next()? != wanted[0] || words.next()? != wanted[1] {
            return None;
        }
        words.nth(4)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_owner_stands_in_the_table() {
        let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let row = |local: u16, remote: u16, user: u32| {
            let ip = u32::from_ne_bytes([127, 0, 0, 1]);
            format!("   0: {ip:08X}:{local:04X} {ip:08X}:{remote:04X} 01 00000000:00000000 00:00000000 00000000  {user}        0 1\n")
        };
        let table =
            format!("  sl  local_address rem_address\n{}{}{}", row(2049, 700, 5), row(700, 2049, 1000), "damaged");
        assert_eq!(owner(&table, at(700), at(2049)), Some(1000));
        assert_eq!(owner(&table, at(701), at(2049)), None);
    }

    #[test]
    fn this_process_is_ours() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(is_ours(&listener.accept().unwrap().0));
        drop(client);
    }
}
