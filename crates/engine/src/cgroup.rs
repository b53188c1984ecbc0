//! What control groups allow this process: processor quotas of its own group and of all above it.
//!
//! Both versions, and both beside each other (hybrid). Source: cgroups(7), the kernel's sched-bwc.rst (version 1:
//! `cpu.cfs_quota_us`, `throttled_time` in ns) and cgroup-v2.rst (version 2: `cpu.max`, `throttled_usec`).

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// A control group that has files of processor time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    folder: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// How often and for how long a group was held back since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Throttle {
    pub periods: u64,
    pub throttled_periods: u64,
    /// Added up over processors by the kernel.
    pub throttled_ns: u64,
}

impl Throttle {
    /// Since `earlier`.
    pub fn since(self, earlier: Throttle) -> Throttle {
        Throttle {
            periods: self.periods.saturating_sub(earlier.periods),
            throttled_periods: self.throttled_periods.saturating_sub(earlier.throttled_periods),
            throttled_ns: self.throttled_ns.saturating_sub(earlier.throttled_ns),
        }
    }
}

/// The groups whose quotas bind this process. Found once; quotas may change while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups(Vec<Group>);

/// A group with a quota, in processors.
#[derive(Debug)]
pub(crate) struct Bound<'a> {
    group: &'a Group,
    pub cores: f64,
}

impl Groups {
    /// From `proc/self` below `root`, which is `/` but in tests. Empty where there are none.
    pub fn find(root: &Path) -> Groups {
        let read = |name: &str| read_to_string(root.join("proc/self").join(name)).unwrap_or_default();
        let (own, mounts) = (read("cgroup"), read("mountinfo"));
        let mounts: Vec<_> = mounts.lines().filter_map(|line| Mount::parse(line, root)).collect();
        let mut found = Vec::new();
        for version in [Version::One, Version::Two] {
            let Some(path) = own_path(&own, version) else { continue };
            let those = mounts.iter().filter(|m| m.version == version);
            found.extend(those.map(|m| m.folders(path)).find(|all| !all.is_empty()).unwrap_or_default());
        }
        Groups(found)
    }

    /// Those that have a quota now.
    pub fn bounds(&self) -> Vec<Bound<'_>> {
        self.0.iter().filter_map(|group| Some(Bound { group, cores: group.quota_cores()? })).collect()
    }
}

impl Bound<'_> {
    /// None where the group does not say.
    pub fn throttle(&self) -> Option<Throttle> {
        let text = read_to_string(self.group.folder.join("cpu.stat")).ok()?;
        let field =
            |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok());
        let throttled_ns = match self.group.version {
            Version::One => field("throttled_time")?,
            Version::Two => field("throttled_usec").map(|us: u64| us.saturating_mul(1000))?,
        };
        Some(Throttle { periods: field("nr_periods")?, throttled_periods: field("nr_throttled")?, throttled_ns })
    }
}

impl Group {
    /// Processors it may use; None where it has no quota.
    fn quota_cores(&self) -> Option<f64> {
        let read = |name: &str| read_to_string(self.folder.join(name)).ok();
        let (quota, period) = match self.version {
            Version::One => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
            Version::Two => {
                let text = read("cpu.max")?;
                let mut words = text.split_whitespace().map(str::to_string);
                (words.next()?, words.next()?)
            }
        };
        // Without a quota: -1 in version 1, `max` in version 2.
        let (quota, period): (f64, f64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
        (quota > 0.0 && period > 0.0).then_some(quota / period)
    }
}

/// A mount of a hierarchy that has the processor's controller, or may have it.
#[derive(Debug)]
struct Mount {
    version: Version,
    /// The part of the hierarchy that is mounted.
    part: String,
    at: PathBuf,
}

impl Mount {
    /// From a line of mountinfo: `id parent dev part at options ... - type source options`.
    fn parse(line: &str, root: &Path) -> Option<Mount> {
        let (left, right) = line.split_once(" - ")?;
        let mut fields = left.split(' ').skip(3);
        let (part, at) = (unescaped(fields.next()?), unescaped(fields.next()?));
        let mut fields = right.split(' ');
        let version = match (fields.next()?, fields.nth(1)?) {
            ("cgroup", options) if options.split(',').any(|each| each == "cpu") => Version::One,
            ("cgroup2", _) => Version::Two,
            _ => return None,
        };
        Some(Mount { version, part, at: root.join(at.trim_start_matches('/')) })
    }

    /// The group `path` and all above it that can be seen. In a container the path may be the host's, which is not
    /// mounted there: then the mount itself is the container's group.
    fn folders(&self, path: &str) -> Vec<Group> {
        let below = Path::new(path).strip_prefix(&self.part).unwrap_or(Path::new(""));
        let below = if below.components().any(|each| each.as_os_str() == "..") { Path::new("") } else { below };
        let all = below.ancestors().map(|each| Group { folder: self.at.join(each), version: self.version });
        all.filter(Group::has_files).collect()
    }
}

impl Group {
    /// The root of a hierarchy has no quota, and other groups only where the controller is on.
    fn has_files(&self) -> bool {
        let name = if self.version == Version::One { "cpu.cfs_quota_us" } else { "cpu.max" };
        self.folder.join(name).exists()
    }
}

/// The process's own group, from /proc/self/cgroup: `id:controllers:path`; version 2 has no controllers there.
fn own_path(text: &str, version: Version) -> Option<&str> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let fits = match version {
            Version::One => controllers.split(',').any(|each| each == "cpu"),
            Version::Two => id == "0" && controllers.is_empty(),
        };
        fits.then_some(path)
    })
}

/// Spaces and the like are written as `\040` in mountinfo.
fn unescaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &after[3..];
            }
            None => {
                out.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Processors that the affinity of this thread allows; at least 1.
pub(crate) fn affinity_cores() -> usize {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the set is plain data, and the call fills no more than its size.
        let count = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            match libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) {
                0 => libc::CPU_COUNT(&set),
                _ => 0,
            }
        };
        if count > 0 {
            return count as usize;
        }
    }
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Processors that control groups allow this process, the least of its own group's quota and of those above it; None
/// where there is no quota. root: `/`, but in tests.
pub fn cpu_quota_cores(root: &Path) -> Option<f64> {
    Groups::find(root).bounds().iter().map(|bound| bound.cores).reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    const V1: &str = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct";
    const V2: &str = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";

    /// A root with proc/self/cgroup, proc/self/mountinfo and files, that goes with the value.
    struct Tree(PathBuf);

    impl Tree {
        fn new(own: &str, mounts: &str, files: &[(&str, &str)]) -> Tree {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let name = format!("naslab-cgroup-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let tree = Tree(std::env::temp_dir().join(name));
            for (path, text) in [("proc/self/cgroup", own), ("proc/self/mountinfo", mounts)].iter().chain(files) {
                let path = tree.0.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            tree
        }

        fn quota(&self) -> Option<f64> {
            cpu_quota_cores(&self.0)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn version_1_has_quota_and_period_in_files_of_their_own() {
        let files = [
            ("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "15000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/box/cpu.stat", "nr_periods 40\nnr_throttled 39\nthrottled_time 3300000000\n"),
        ];
        let tree = Tree::new("4:memory:/m\n1:cpu,cpuacct:/box\n", V1, &files);
        assert_eq!(tree.quota(), Some(0.15));
        let found = Groups::find(&tree.0);
        let throttle = found.bounds()[0].throttle();
        let wanted = Throttle { periods: 40, throttled_periods: 39, throttled_ns: 3_300_000_000 };
        assert_eq!(throttle, Some(wanted));
        assert_eq!(wanted.since(Throttle { periods: 30, ..Throttle::default() }).periods, 10);
    }

    #[test]
    fn version_2_has_both_in_one_and_microseconds() {
        let stat = "usage_usec 9\nnr_periods 10\nnr_throttled 4\nthrottled_usec 250000\nnr_bursts 0\nburst_usec 0\n";
        let files =
            [("sys/fs/cgroup/unified/box/cpu.max", "150000 100000\n"), ("sys/fs/cgroup/unified/box/cpu.stat", stat)];
        let tree = Tree::new("0::/box\n", V2, &files);
        assert_eq!(tree.quota(), Some(1.5));
        assert_eq!(Groups::find(&tree.0).bounds()[0].throttle().unwrap().throttled_ns, 250_000_000);
    }

    #[test]
    fn the_least_quota_of_all_above_counts() {
        let files = [
            ("sys/fs/cgroup/unified/a/b/c/cpu.max", "400000 100000\n"),
            ("sys/fs/cgroup/unified/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/unified/a/cpu.max", "20000 100000\n"),
        ];
        assert_eq!(Tree::new("0::/a/b/c\n", V2, &files).quota(), Some(0.2));
    }

    #[test]
    fn hybrid_takes_the_controller_from_where_it_is() {
        let both = format!("{V1}\n{V2}");
        let files = [
            ("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "50000"),
            ("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000"),
            ("sys/fs/cgroup/unified/box/cgroup.procs", ""),
        ];
        assert_eq!(Tree::new("1:cpuacct,cpu:/box\n0::/box\n", &both, &files).quota(), Some(0.5));
    }

    #[test]
    fn a_containers_mount_is_part_of_the_hosts_hierarchy() {
        let mount = V2.replace(" / /sys", " /docker/ab /sys");
        let files = [("sys/fs/cgroup/unified/cpu.max", "30000 100000")];
        for own in ["0::/docker/ab", "0::/", "0::/../elsewhere"] {
            assert_eq!(Tree::new(own, &mount, &files).quota(), Some(0.3), "{own}");
        }
        let inner = [("sys/fs/cgroup/unified/in/cpu.max", "30000 100000")];
        assert_eq!(Tree::new("0::/docker/ab/in", &mount, &inner).quota(), Some(0.3));
    }

    #[test]
    fn no_quota_and_no_groups_are_no_limit() {
        let unlimited = [
            ("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(Tree::new("1:cpu,cpuacct:/box\n", V1, &unlimited).quota(), None);
        assert_eq!(Tree::new("0::/box", V2, &[("sys/fs/cgroup/unified/box/cpu.max", "max 100000\n")]).quota(), None);
        assert_eq!(Tree::new("", "", &[]).quota(), None);
        assert_eq!(Tree::new("odd\n::\n0:", "odd - odd\n1 2 - x", &[]).quota(), None);
        let damaged = [("sys/fs/cgroup/unified/box/cpu.max", "15000 0\n")];
        assert_eq!(Tree::new("0::/box", V2, &damaged).quota(), None);
    }

    #[test]
    fn mount_points_may_have_spaces() {
        assert_eq!(unescaped(r"/a\040b\134c\x"), r"/a b\c\x");
    }

    #[test]
    fn this_process_may_use_a_processor() {
        assert!(affinity_cores() >= 1);
    }
}
