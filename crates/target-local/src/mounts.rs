//! Which mount a folder lies on, and what its options say, from `/proc/self/mountinfo`.

use naslab_core::WireCounters;
use std::path::Path;

/// Options worth their own fact, as option name and fact name.
const NETWORK_FACTS: [(&str, &str); 13] = [
    ("vers", "mount_version"),
    ("rsize", "mount_rsize"),
    ("wsize", "mount_wsize"),
    ("proto", "mount_proto"),
    ("addr", "mount_address"),
    ("sec", "mount_security"),
    ("nconnect", "mount_nconnect"),
    ("max_channels", "mount_channels"),
    ("cache", "mount_cache"),
    ("actimeo", "mount_actimeo"),
    ("lookupcache", "mount_lookupcache"),
    ("local_lock", "mount_local_lock"),
    ("timeo", "mount_timeo"),
];

/// Options without a value that change what is measured.
const NETWORK_SWITCHES: [&str; 12] = [
    "sync",
    "soft",
    "hard",
    "noac",
    "nocto",
    "nolock",
    "fsc",
    "seal",
    "sign",
    "multichannel",
    "rdma",
    "persistenthandles",
];

/// One mount of this process's name space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The kernel's number of the mount.
    pub id: u64,
    /// Major and minor number of the device.
    pub device: (u32, u32),
    /// Where it is mounted.
    pub point: String,
    /// File system type: `ext4`, `nfs4`, `cifs`, ...
    pub fs_type: String,
    /// Device, export or share.
    pub source: String,
    /// Options of the mount and of the file system, without passwords.
    pub options: Vec<String>,
}

impl Mount {
    /// Reads one line of mountinfo; `None` when it is not one.
    pub fn parse(line: &str) -> Option<Mount> {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ');
        let id = front.next()?.parse().ok()?;
        let (major, minor) = front.nth(1)?.split_once(':')?;
        let device = (major.parse().ok()?, minor.parse().ok()?);
        let point = unescape(front.nth(1)?);
        let mount_options = front.next()?;
        let mut back = back.splitn(3, ' ');
        let fs_type = back.next()?.to_string();
        let source = unescape(back.next()?);
        let mut options: Vec<String> = Vec::new();
        for option in mount_options.split(',').chain(back.next().unwrap_or("").trim().split(',')) {
            let keep = !option.is_empty() && !option.starts_with("pass");
            if keep && !options.iter().any(|known| known == option) {
                options.push(option.to_string());
            }
        }
        Some(Mount { id, device, point, fs_type, source, options })
    }

    /// An NFS mount.
    pub fn is_nfs(&self) -> bool {
        matches!(self.fs_type.as_str(), "nfs" | "nfs4")
    }

    /// A mount of a file server.
    pub fn is_network(&self) -> bool {
        self.is_nfs() || matches!(self.fs_type.as_str(), "cifs" | "smb3")
    }

    /// Files live in memory only, so their pages cannot be dropped.
    pub fn is_memory(&self) -> bool {
        matches!(self.fs_type.as_str(), "tmpfs" | "ramfs" | "devtmpfs")
    }

    /// The value of option `name=value`.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|option| {
            let (key, value) = option.split_once('=')?;
            (key == name).then_some(value)
        })
    }

    /// The server of a network mount: `host:/export` or `//host/share`.
    pub fn server(&self) -> Option<&str> {
        if self.is_nfs() {
            return self.source.rsplit_once(":/").map(|(host, _)| host);
        }
        let rest = self.source.strip_prefix("//")?;
        rest.split('/').next().filter(|host| !host.is_empty())
    }

    /// Names and values for the result's `target` record.
    pub fn facts(&self) -> Vec<(String, String)> {
        let mut facts = vec![
            ("filesystem".to_string(), self.fs_type.clone()),
            ("mount_point".to_string(), self.point.clone()),
            ("mount_source".to_string(), self.source.clone()),
            ("mount_options".to_string(), self.options.join(",")),
        ];
        if !self.is_network() {
            return facts;
        }
        let mut add = |name: &str, value: &str| facts.push((name.to_string(), value.to_string()));
        if let Some(server) = self.server() {
            add("mount_server", server);
        }
        for (option, fact) in NETWORK_FACTS {
            if let Some(value) = self.option(option) {
                add(fact, value);
            }
        }
        for switch in NETWORK_SWITCHES {
            if self.options.iter().any(|option| option == switch) {
                add(&format!("mount_{switch}"), "yes");
            }
        }
        facts
    }
}

/// Space, tab, newline and backslash are written as `\040` and so on.
fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let code = (bytes[i] == b'\\')
            .then(|| bytes.get(i + 1..i + 4))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(code.unwrap_or(bytes[i]));
        i += if code.is_some() { 4 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The mount that holds `path`: the longest mount point above it on the same device, the latest where
/// several are stacked. Btrfs shows another device in `stat` than in mountinfo, so without a match the
/// longest mount point alone decides.
pub fn find(mountinfo: &str, path: &Path, device: (u32, u32)) -> Option<Mount> {
    let above = mountinfo.lines().filter_map(Mount::parse).filter(|mount| path.starts_with(&mount.point));
    above.max_by_key(|mount| (mount.device == device, mount.point.len()))
}

/// The mount that holds an existing path, where the system can tell.
pub fn mount_of(path: &Path) -> Option<Mount> {
    let path = path.canonicalize().ok()?;
    let text = std::fs::read_to_string("/proc/thread-self/mountinfo")
        .or_else(|_| std::fs::read_to_string("/proc/self/mountinfo"))
        .ok()?;
    find(&text, &path, device_of(&path)?)
}

fn device_of(path: &Path) -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    let dev = path.metadata().ok()?.dev();
    Some((libc::major(dev as _) as u32, libc::minor(dev as _) as u32))
}

/// Bytes read from and written to the server of the NFS mount at `point`: fields 5 and 6 of its
/// `bytes:` line in mountstats. They are file contents, without RPC headers. Of mounts stacked on one
/// point the last counts.
pub fn nfs_bytes(mountstats: &str, point: &str) -> Option<WireCounters> {
    let mut here = false;
    let mut found = None;
    for line in mountstats.lines() {
        if line.starts_with("device ") {
            here = nfs_point(line).is_some_and(|place| place == point);
        } else if here && line.trim_start().starts_with("bytes:") {
            found = Some(line);
        }
    }
    let mut fields = found?.split_whitespace().skip(5);
    Some(WireCounters { received_bytes: fields.next()?.parse().ok()?, sent_bytes: fields.next()?.parse().ok()? })
}

/// The mount point in the heading of an NFS mount's statistics.
fn nfs_point(heading: &str) -> Option<String> {
    let (_, rest) = heading.split_once(" mounted on ")?;
    let (point, fs_type) = rest.split_once(" with fstype ")?;
    fs_type.starts_with("nfs").then(|| unescape(point))
}

/// [`nfs_bytes`] of this process's mountstats.
pub(crate) fn nfs_bytes_now(point: &str) -> Option<WireCounters> {
    nfs_bytes(&std::fs::read_to_string("/proc/self/mountstats").ok()?, point)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXT4: &str = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard";
    const SHARED: &str = "36 27 98:0 /mnt1 /mnt2 rw,noatime shared:5 master:1 - ext3 /dev/root rw,errors=continue";
    const NFS: &str = "71 27 0:52 / /mnt/nas\\040one rw,relatime shared:39 - nfs4 nas:/vol/a \
        rw,vers=4.2,rsize=1048576,wsize=524288,namlen=255,hard,proto=tcp,nconnect=4,timeo=600,\
        retrans=2,sec=sys,clientaddr=10.0.0.2,local_lock=none,addr=10.0.0.1";
    const NFS6: &str = "71 27 0:53 / /mnt/six rw - nfs [fd00::1]:/vol rw,vers=3,sync,proto=tcp6";
    const CIFS: &str = "72 27 0:60 / /mnt/smb rw,nosuid - cifs //nas/share/dir \
        rw,vers=3.1.1,cache=strict,username=u,password=x,uid=0,seal,rsize=4194304,wsize=65536,\
        actimeo=1,addr=10.0.0.1";

    fn fact<'a>(facts: &'a [(String, String)], name: &str) -> Option<&'a str> {
        let found = facts.iter().find(|(n, _)| n == name)?;
        Some(&found.1)
    }

    #[test]
    fn local_lines() {
        let mount = Mount::parse(EXT4).unwrap();
        assert_eq!((mount.id, mount.device), (27, (254, 0)));
        assert_eq!((mount.point.as_str(), mount.fs_type.as_str()), ("/", "ext4"));
        assert_eq!(mount.options, ["rw", "relatime", "discard"]);
        let mount = Mount::parse(SHARED).unwrap();
        assert_eq!((mount.point.as_str(), mount.source.as_str()), ("/mnt2", "/dev/root"));
        assert!(fact(&mount.facts(), "mount_server").is_none());
    }

    #[test]
    fn nfs_lines() {
        let mount = Mount::parse(NFS).unwrap();
        assert_eq!(mount.point, "/mnt/nas one");
        let facts = mount.facts();
        for (name, value) in [
            ("filesystem", "nfs4"),
            ("mount_version", "4.2"),
            ("mount_rsize", "1048576"),
            ("mount_wsize", "524288"),
            ("mount_server", "nas"),
            ("mount_proto", "tcp"),
            ("mount_nconnect", "4"),
            ("mount_hard", "yes"),
        ] {
            assert_eq!(fact(&facts, name), Some(value), "{name}");
        }
        assert_eq!(fact(&facts, "mount_sync"), None);
        let facts = Mount::parse(NFS6).unwrap().facts();
        assert_eq!(fact(&facts, "mount_server"), Some("[fd00::1]"));
        assert_eq!(fact(&facts, "mount_sync"), Some("yes"));
    }

    #[test]
    fn cifs_lines_without_the_password() {
        let mount = Mount::parse(CIFS).unwrap();
        let facts = mount.facts();
        assert_eq!(fact(&facts, "mount_server"), Some("nas"));
        assert_eq!(fact(&facts, "mount_version"), Some("3.1.1"));
        assert_eq!(fact(&facts, "mount_wsize"), Some("65536"));
        assert_eq!(fact(&facts, "mount_seal"), Some("yes"));
        assert_eq!(fact(&facts, "mount_cache"), Some("strict"));
        assert!(!fact(&facts, "mount_options").unwrap().contains("password"));
    }

    #[test]
    fn broken_lines_are_no_mounts() {
        for line in ["", " - ", "1 2 3", "x 1 254:0 / / rw - ext4 d rw", "1 1 2 / / rw - a b c"] {
            assert_eq!(Mount::parse(line), None, "{line}");
        }
        assert_eq!(unescape("a\\04"), "a\\04");
        assert_eq!(unescape("\\134"), "\\");
    }

    #[test]
    fn the_longest_mount_on_the_device_holds_the_path() {
        let info = [EXT4, NFS6, CIFS, "90 27 0:61 / /mnt/six/deep rw - tmpfs t rw"].join("\n");
        let at = |path: &str, device| find(&info, Path::new(path), device).unwrap().fs_type;
        assert_eq!(at("/var/tmp", (254, 0)), "ext4");
        assert_eq!(at("/mnt/six/a", (0, 53)), "nfs");
        assert_eq!(at("/mnt/six/deep/b", (0, 61)), "tmpfs");
        assert_eq!(at("/mnt/sixty", (254, 0)), "ext4");
        assert_eq!(at("/mnt/six/subvolume", (0, 99)), "nfs");
    }

    #[test]
    fn nfs_counters_of_the_right_mount() {
        let stats = "device proc mounted on /proc with fstype proc\n\
            device nas:/a mounted on /mnt/a with fstype nfs4 statvers=1.1\n\
            \topts:\trw\n\tbytes:\t1 2 3 4 500 600 7 8\n\
            device nas:/b mounted on /mnt/b\\040c with fstype nfs statvers=1.1\n\
            \tbytes:\t1 2 3 4 50 60 7 8\n";
        let got = nfs_bytes(stats, "/mnt/b c").unwrap();
        assert_eq!((got.received_bytes, got.sent_bytes), (50, 60));
        assert_eq!(nfs_bytes(stats, "/mnt/a").unwrap().sent_bytes, 600);
        assert_eq!(nfs_bytes(stats, "/proc"), None);
        assert_eq!(nfs_bytes(stats, "/mnt"), None);
    }

    #[test]
    fn this_machine_has_a_root_mount() {
        assert!(mount_of(Path::new("/proc")).is_some_and(|m| m.fs_type == "proc"));
    }
}
