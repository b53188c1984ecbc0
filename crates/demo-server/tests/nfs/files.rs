//! Files and folders through real calls.

use crate::client::{Site, Words, MOUNT, NFS};
use std::collections::HashSet;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};

const STALE: u32 = 70;
const NOENT: u32 = 2;
const EXIST: u32 = 17;

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(len)
    .collect()
}

#[test]
fn what_is_written_is_read_and_lies_in_the_folder() {
    let site = Site::new();
    let mut client = site.client();
    let root = client.root.clone();
    let file = client.create(&root, b"file").unwrap();
    let whole = noise(3 << 20, 5);
    let mut offset = 0;
    for (turn, len) in [1, 4095, 65_536, 1 << 20, 7, 1 << 20].into_iter().cycle().enumerate() {
        let end = (offset + len).min(whole.len());
        let stable = turn as u32 % 3;
        let part = &whole[offset..end];
        assert_eq!(client.write(&file, offset as u64, part, stable), Ok((part.len() as u32, stable)));
        offset = end;
        if offset == whole.len() {
            break;
        }
    }
    assert_eq!(client.nfs(21, client.at(&file).u64(0).u32(0)).0, 0, "COMMIT");
    assert_eq!(std::fs::read(site.path("file")).unwrap(), whole);
    for (offset, count) in [(0, 1 << 20), (1 << 20, 1 << 20), (12_345, 54_321), (whole.len() - 5, 100)] {
        let (bytes, eof) = client.read(&file, offset as u64, count).unwrap();
        let end = (offset + count as usize).min(whole.len());
        assert!(bytes == whole[offset..end] && eof == (end == whole.len()), "at {offset}");
    }
    assert_eq!(client.read(&file, whole.len() as u64, 10), Ok((vec![], true)));
    assert_eq!(client.read(&file, 1 << 50, 10), Ok((vec![], true)));
    assert_eq!(client.read(&file, 0, u32::MAX).unwrap().0.len(), 1 << 20, "at most a MiB");
    assert_eq!(client.read(&root, 0, 10), Err(21), "a folder");
}

#[test]
fn offsets_beyond_four_gib_and_holes() {
    let site = Site::new();
    let mut client = site.client();
    let root = client.root.clone();
    let file = client.create(&root, b"sparse").unwrap();
    let far = (5 << 30) + 3;
    client.write(&file, far, b"far", 0).unwrap();
    assert_eq!(client.getattr(&file).unwrap().size, far + 3);
    assert_eq!(client.read(&file, far - 2, 100).unwrap(), (b"\0\0far".to_vec(), true));
    let args = client.at(&file).u64(u64::MAX - 1).u32(4).u32(0).bytes(b"over");
    assert_eq!(client.nfs(7, args).0, 27, "FBIG");
    let args = client.at(&file).u64(0).u32(5).u32(0).bytes(b"over");
    assert_eq!(client.nfs(7, args).0, 22, "count and data differ");
}

#[test]
fn the_three_ways_of_create() {
    let site = Site::new();
    let mut client = site.client();
    let root = client.root.clone();
    let file = client.create(&root, b"f").unwrap();
    assert_eq!(std::fs::metadata(site.path("f")).unwrap().permissions().mode() & 0o777, 0o640);
    client.write(&file, 0, b"12345", 0).unwrap();
    assert_eq!(client.create(&root, b"f").unwrap(), file, "unchecked finds it");
    assert_eq!(client.getattr(&file).unwrap().size, 5);
    let empties = Words::default().u32(0).attributes(None, Some(0));
    assert_eq!(client.make(8, &root, b"f", empties).unwrap(), file);
    assert_eq!(client.getattr(&file).unwrap().size, 0);
    let guarded = || Words::default().u32(1).attributes(None, None);
    assert_eq!(client.make(8, &root, b"f", guarded()), Err(EXIST));
    assert!(client.make(8, &root, b"g", guarded()).is_ok());
    let exclusive = |verifier| Words::default().u32(2).u64(verifier);
    let made = client.make(8, &root, b"e", exclusive(7)).unwrap();
    assert_eq!(client.make(8, &root, b"e", exclusive(7)).unwrap(), made, "asked again");
    assert_eq!(client.make(8, &root, b"e", exclusive(8)), Err(EXIST));
    assert_eq!(client.make(8, &root, b"f", exclusive(8)), Err(EXIST));
    std::fs::create_dir(site.path("d")).unwrap();
    assert_eq!(client.create(&root, b"d"), Err(EXIST), "a folder");
}

#[test]
fn attributes_change_as_asked() {
    let site = Site::new();
    let mut client = site.client();
    let root = client.root.clone();
    let file = client.create(&root, b"f").unwrap();
    client.write(&file, 0, &[7; 5000], 0).unwrap();
    let set = |guard: Option<(u32, u32)>, wanted: Words| {
        let mut args = Words::default().bytes(&file);
        args.0.extend(wanted.0);
        match guard {
            Some((seconds, nanos)) => args.u32(1).u32(seconds).u32(nanos),
            None => args.u32(0),
        }
    };
    assert_eq!(client.nfs(2, set(None, Words::default().attributes(Some(0o600), Some(77)))).0, 0);
    let now = client.getattr(&file).unwrap();
    assert_eq!((now.mode, now.size), (0o600, 77));
    let times = Words::default().u32(0).u32(0).u32(0).u32(0).u32(1).u32(2).u32(1_000_000).u32(500);
    assert_eq!(client.nfs(2, set(Some(now.ctime), times.clone())).0, 0);
    assert_eq!(client.getattr(&file).unwrap().mtime, (1_000_000, 500));
    assert_eq!(client.nfs(2, set(Some((1, 1)), times)).0, 10002, "NOT_SYNC");
    let bad = Words::default().u32(0).u32(0).u32(0).u32(0).u32(0).u32(2).u32(1).u32(2_000_000_000);
    assert_eq!(client.nfs(2, set(None, bad)).0, 22, "nanoseconds out of range");
    assert_eq!(client.getattr(&file).unwrap().file_id, std::fs::metadata(site.path("f")).unwrap().ino());
}

#[test]
fn handles_outlive_renames_and_not_removals() {
    let site = Site::new();
    let mut client = site.client();
    let root = client.root.clone();
    let (a, d) = (client.mkdir(&root, b"a").unwrap(), client.mkdir(&root, b"d").unwrap());
    let file = client.create(&a, b"f").unwrap();
    client.write(&file, 0, b"kept", 0).unwrap();
    assert_eq!(client.rename((&root, b"a"), (&d, b"b")), 0);
    assert_eq!(client.read(&file, 0, 9).unwrap().0, b"kept", "its folder moved");
    let victim = client.create(&d, b"victim").unwrap();
    client.write(&victim, 0, b"x", 0).unwrap();
    assert_eq!(client.rename((&a, b"f"), (&d, b"victim")), 0, "replaces");
    assert_eq!(client.read(&victim, 0, 1).unwrap_err(), STALE);
    assert_eq!(client.lookup(&d, b"victim").unwrap(), file);
    assert_eq!(std::fs::read(site.path("d/victim")).unwrap(), b"kept");
    assert_eq!(client.remove(12, &d, b"victim"), 0);
    assert_eq!(client.getattr(&file).unwrap_err(), STALE);
    assert_eq!(client.write(&file, 0, b"x", 0).unwrap_err(), STALE);
    assert_eq!(client.lookup(&d, b"victim"), Err(NOENT));
    assert_eq!(client.remove(12, &d, b"victim"), NOENT);
    assert_eq!(client.remove(13, &root, b"d"), 66, "not empty");
    assert_eq!(client.remove(12, &root, b"d"), 21, "REMOVE of a folder");
    assert_eq!(client.remove(13, &d, b"b"), 0);
    assert_eq!(client.getattr(&a).unwrap_err(), STALE);
    assert_eq!(client.create(&a, b"x"), Err(STALE));
    assert_eq!(client.rename((&root, b"d"), (&d, b"inside")), 22, "into itself");
}

#[test]
fn one_file_of_two_names_survives_their_rename() {
    let site = Site::new();
    let mut client = site.client();
    let root = client.root.clone();
    std::fs::write(site.path("one"), b"1").unwrap();
    std::fs::hard_link(site.path("one"), site.path("two")).unwrap();
    assert_eq!(client.rename((&root, b"one"), (&root, b"two")), 0);
    let one = client.lookup(&root, b"one").unwrap();
    assert_eq!(client.read(&one, 0, 9).unwrap().0, b"1");
}

#[test]
fn nothing_outside_the_folder_can_be_reached() {
    let site = Site::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), b"secret").unwrap();
    symlink(outside.path(), site.path("link")).unwrap();
    symlink(outside.path().join("secret"), site.path("direct")).unwrap();
    let mut client = site.client();
    let root = client.root.clone();
    assert_eq!(client.lookup(&root, b"..").unwrap(), root, "the root's parent is the root");
    let link = client.lookup(&root, b"link").unwrap();
    assert_eq!(client.getattr(&link).unwrap().kind, 5, "shown as what it is");
    assert_eq!(client.lookup(&link, b"secret"), Err(20));
    assert_eq!(client.create(&link, b"new"), Err(20));
    let direct = client.lookup(&root, b"direct").unwrap();
    assert_eq!(client.read(&direct, 0, 9).unwrap_err(), 22);
    assert_eq!(client.write(&direct, 0, b"x", 0).unwrap_err(), 22);
    assert_eq!(client.create(&root, b"direct"), Err(EXIST));
    for name in [&b"../x"[..], b"a/b", b"/etc", b"", b"nul\0"] {
        assert_eq!(client.create(&root, name).unwrap_err(), 22, "{name:?}");
        assert_eq!(client.lookup(&root, name).unwrap_err(), 22);
    }
    for name in [&b"."[..], b".."] {
        assert_eq!(client.mkdir(&root, name), Err(EXIST));
        assert_eq!(client.remove(13, &root, name), 22);
        assert_eq!(client.rename((&root, b"link"), (&root, name)), EXIST);
    }
    // A folder that was known and became a link to the outside since.
    let folder = client.mkdir(&root, b"folder").unwrap();
    std::fs::rename(site.path("folder"), site.path("moved")).unwrap();
    symlink(outside.path(), site.path("folder")).unwrap();
    let known = client.lookup(&folder, b"secret");
    assert!(known == Err(NOENT) || known == Err(STALE), "{known:?}");
    for path in ["/data/link", "/data/../..", "/other", "/data/none", "/dataX"] {
        assert_ne!(client.call(MOUNT, 1, Words::default().bytes(path.as_bytes())).take_u32(), 0, "{path}");
    }
    assert_eq!(client.call(MOUNT, 1, Words::default().bytes(b"/data/moved/")).take_u32(), 0);
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn symbolic_links_are_made_and_told() {
    let site = Site::new();
    let mut client = site.client();
    let root = client.root.clone();
    let rest = Words::default().attributes(None, None).bytes("wo/anders-ü".as_bytes());
    let link = client.make(10, &root, b"l", rest).unwrap();
    let (status, mut reply) = client.nfs(5, client.at(&link));
    assert_eq!(status, 0);
    reply.take_post();
    assert_eq!(reply.take_bytes(), "wo/anders-ü".as_bytes());
    assert_eq!(client.nfs(5, client.at(&root)).0, 22);
    assert_eq!(client.remove(12, &root, b"l"), 0);
}

#[test]
fn names_are_bytes_and_may_be_long() {
    let site = Site::new();
    let mut client = site.client();
    let root = client.root.clone();
    let long = [b'n'; 255];
    let names: [&[u8]; 5] = ["größe €.txt".as_bytes(), "日本語".as_bytes(), b"\xff\xfe raw", b" .hidden ", &long];
    for name in names {
        let file = client.create(&root, name).unwrap();
        client.write(&file, 0, name, 0).unwrap();
    }
    assert_eq!(client.create(&root, &[b'n'; 256]), Err(63));
    let (listed, whole) = client.list(17, &root, 0, 65_536);
    let listed: HashSet<_> = listed.into_iter().map(|(name, _)| name).collect();
    assert!(whole && names.iter().all(|name| listed.contains(*name)) && listed.len() == 7);
    for name in names {
        let file = client.lookup(&root, name).unwrap();
        assert_eq!(client.read(&file, 0, 999).unwrap().0, name);
    }
}

#[test]
fn listing_goes_on_while_names_come_and_go() {
    let site = Site::new();
    let mut client = site.client();
    let root = client.root.clone();
    let many = 2000;
    for number in 0..many {
        std::fs::write(site.path(&format!("file-{number:05}")), b"").unwrap();
    }
    for (procedure, count) in [(16, 1024), (17, 4096), (16, 1 << 20), (17, 1 << 20)] {
        let (mut seen, mut cookie, mut calls) = (Vec::new(), 0, 0);
        loop {
            let (names, whole) = client.list(procedure, &root, cookie, count);
            cookie = names.last().map_or(cookie, |last| last.1);
            seen.extend(names.into_iter().map(|(name, _)| name));
            calls += 1;
            if whole {
                break;
            }
        }
        assert!(count == 1 << 20 || calls > 10);
        let different: HashSet<_> = seen.iter().collect();
        assert_eq!((seen.len(), different.len()), (many + 2, many + 2));
    }
    // Removing as one lists, as `rm -r` does.
    let (mut cookie, mut removed) = (0, 0);
    loop {
        let (names, whole) = client.list(16, &root, cookie, 2048);
        for (name, at) in names {
            cookie = at;
            if name.starts_with(b"file") {
                assert_eq!(client.remove(12, &root, &name), 0);
                removed += 1;
            }
        }
        if whole {
            break;
        }
    }
    assert_eq!((removed, std::fs::read_dir(site.folder.path()).unwrap().count()), (many, 0));
    let args = client.at(&root).u64(0).u64(0).u32(64);
    assert_eq!(client.nfs(16, args).0, 10005, "TOOSMALL");
}

#[test]
fn space_and_limits_are_the_real_ones() {
    let site = Site::new();
    let mut client = site.client();
    let root = client.root.clone();
    let (status, mut reply) = client.nfs(19, client.at(&root));
    assert_eq!(status, 0);
    assert!(reply.take_post().is_some());
    let sizes = [0; 7].map(|_| reply.take_u32());
    assert_eq!([sizes[0], sizes[1], sizes[3], sizes[4]], [1 << 20; 4]);
    let (status, mut reply) = client.nfs(18, client.at(&root));
    assert_eq!(status, 0);
    reply.take_post();
    let (total, free) = (reply.take_u64(), reply.take_u64());
    let real = rustix::fs::statvfs(site.folder.path()).unwrap();
    assert_eq!(total, real.f_blocks * real.f_frsize);
    assert!(free.abs_diff(real.f_bfree * real.f_frsize) < 1 << 30, "{free}");
    let (status, mut reply) = client.nfs(4, client.at(&root).u32(0x3f));
    assert_eq!(status, 0);
    reply.take_post();
    assert_eq!(reply.take_u32(), 0x3f, "its owner may do everything");
    assert_eq!(client.nfs(15, client.at(&root).bytes(&root).bytes(b"hard")).0, 10004, "LINK");
    assert_eq!(client.call(MOUNT, 5, Words::default()).0[8..13], *b"/data");
}

#[test]
fn files_more_than_descriptors() {
    let site = Site::new();
    let mut client = site.client();
    let root = client.root.clone();
    let handles: Vec<_> = (0..600u32)
        .map(|number| {
            let file = client.create(&root, number.to_string().as_bytes()).unwrap();
            client.write(&file, 0, &number.to_be_bytes(), 0).unwrap();
            file
        })
        .collect();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(open < 550, "{open} descriptors");
    for (number, file) in (0u32..).zip(&handles) {
        assert_eq!(client.read(file, 0, 4).unwrap().0, number.to_be_bytes());
    }
}

#[test]
fn handles_of_an_earlier_server_are_stale_and_others_bad() {
    let old = Site::new();
    let stale = old.client().root;
    drop(old);
    let site = Site::new();
    let mut client = site.client();
    assert_eq!(client.getattr(&stale).unwrap_err(), STALE);
    assert_eq!(client.getattr(b"nonsense").unwrap_err(), 10001);
    assert_eq!(client.send(NFS, 0, &Words::default()), client.receive().0);
}
