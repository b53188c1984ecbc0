//! Which handle means which file: a table of names, each with the identity of what it named when last seen.
//!
//! Handles stay valid over renames, and mean nothing any more once what they named was removed or replaced.

use crate::status::Status;
use rustix::fs::Stat;
use std::collections::HashMap;

/// The served folder itself.
pub(crate) const ROOT: u64 = 1;
/// Numbers below are cookies of `.` and `..`, and the root.
const FIRST: u64 = 16;

/// Device and inode number.
pub(crate) type Identity = (u64, u64);

pub(crate) fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// What a handle means.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) parent: u64,
    pub(crate) name: Box<[u8]>,
    pub(crate) identity: Identity,
    /// Verifier of the exclusive CREATE that made it.
    pub(crate) verifier: Option<u64>,
}

/// The table. Numbers are given out in ascending order and never twice: they serve as cookies of READDIR.
pub(crate) struct Nodes {
    next: u64,
    by_id: HashMap<u64, Node>,
    by_name: HashMap<(u64, Box<[u8]>), u64>,
}

impl Nodes {
    pub(crate) fn new(root: Identity) -> Self {
        let node = Node { parent: ROOT, name: Box::default(), identity: root, verifier: None };
        Self { next: FIRST, by_id: HashMap::from([(ROOT, node)]), by_name: HashMap::new() }
    }

    pub(crate) fn get(&self, id: u64) -> Result<&Node, Status> {
        self.by_id.get(&id).ok_or(Status::STALE)
    }

    pub(crate) fn contains(&self, id: u64) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(crate) fn set_verifier(&mut self, id: u64, verifier: u64) {
        if let Some(node) = self.by_id.get_mut(&id) {
            node.verifier = Some(verifier);
        }
    }

    /// The number of a name that was just seen with this identity: a new one if it meant something else before.
    pub(crate) fn seen(&mut self, parent: u64, name: &[u8], identity: Identity) -> u64 {
        let key = (parent, Box::from(name));
        if let Some(&id) = self.by_name.get(&key) {
            if self.by_id[&id].identity == identity {
                return id;
            }
            self.by_id.remove(&id);
        }
        let id = self.next;
        self.next += 1;
        self.by_id.insert(id, Node { parent, name: Box::from(name), identity, verifier: None });
        self.by_name.insert(key, id);
        id
    }

    /// The name is gone; the number it had.
    pub(crate) fn removed(&mut self, parent: u64, name: &[u8]) -> Option<u64> {
        let id = self.by_name.remove(&(parent, Box::from(name)))?;
        self.by_id.remove(&id);
        Some(id)
    }

    /// A name became another one; the number of what was replaced.
    pub(crate) fn renamed(&mut self, from: (u64, &[u8]), to: (u64, &[u8])) -> Option<u64> {
        if from == to {
            return None;
        }
        let replaced = self.removed(to.0, to.1);
        if let Some(id) = self.by_name.remove(&(from.0, Box::from(from.1))) {
            let node = self.by_id.get_mut(&id).expect("every name has a node");
            (node.parent, node.name) = (to.0, Box::from(to.1));
            self.by_name.insert((to.0, Box::from(to.1)), id);
        }
        replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outlive_renames_and_not_removals() {
        let mut nodes = Nodes::new((1, 1));
        let a = nodes.seen(ROOT, b"a", (1, 2));
        let b = nodes.seen(ROOT, b"b", (1, 3));
        assert!(a >= FIRST && b > a);
        assert_eq!(nodes.seen(ROOT, b"a", (1, 2)), a);
        assert_eq!(nodes.renamed((ROOT, b"a"), (ROOT, b"b")), Some(b));
        assert_eq!(&*nodes.get(a).ok().unwrap().name, b"b");
        assert_eq!(nodes.get(b).err(), Some(Status::STALE));
        assert_eq!(nodes.renamed((ROOT, b"b"), (ROOT, b"b")), None, "onto itself");
        assert!(nodes.contains(a));
        assert_eq!(nodes.removed(ROOT, b"b"), Some(a));
        assert!(!nodes.contains(a) && nodes.seen(ROOT, b"a", (1, 2)) > b);
    }

    #[test]
    fn a_name_that_means_something_else_gets_a_new_number() {
        let mut nodes = Nodes::new((1, 1));
        let old = nodes.seen(ROOT, b"a", (1, 2));
        let new = nodes.seen(ROOT, b"a", (1, 9));
        assert!(new != old && !nodes.contains(old));
    }
}
