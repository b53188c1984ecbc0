//! Who this process is to an NFS server.

/// Most bytes of a host's name in what servers are told.
const MOST_NAME_BYTES: usize = 63;
/// The user and the group of nobody, where users have no numbers.
#[cfg(not(unix))]
const NOBODY: u32 = 65534;

/// Whether ports below 1024 may be had.
#[cfg(unix)]
pub(crate) fn is_root() -> bool {
    // SAFETY: the call has no conditions and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// The numbers of the user and of the group.
#[cfg(unix)]
pub(crate) fn user() -> (u32, u32) {
    // SAFETY: these calls have no conditions and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// The first `most` groups of the process, as the kernel's client sends them.
#[cfg(unix)]
pub(crate) fn groups(most: usize) -> Vec<u32> {
    let mut groups = vec![0; 65536];
    // SAFETY: the array has room for as many groups as are said.
    let count = unsafe { libc::getgroups(groups.len() as libc::c_int, groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(count).unwrap_or(0).min(most));
    groups
}

#[cfg(unix)]
fn full_host_name() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the array is valid for its length; the last byte stays zero.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0;
    let end = name.iter().position(|b| *b == 0).filter(|_| !failed).unwrap_or(0);
    String::from_utf8_lossy(&name[..end]).into_owned()
}

/// Whether ports below 1024 may be had: Windows asks for no right.
#[cfg(not(unix))]
pub(crate) fn is_root() -> bool {
    true
}

/// The numbers of the user and of the group.
#[cfg(not(unix))]
pub(crate) fn user() -> (u32, u32) {
    (NOBODY, NOBODY)
}

/// Groups of the process.
#[cfg(not(unix))]
pub(crate) fn groups(_most: usize) -> Vec<u32> {
    Vec::new()
}

#[cfg(not(unix))]
fn full_host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// The name of this machine; `naslab` where it has none.
pub(crate) fn host_name() -> String {
    match full_host_name() {
        name if name.is_empty() => "naslab".into(),
        name => name.chars().take(MOST_NAME_BYTES).collect(),
    }
}
