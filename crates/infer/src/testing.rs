//! What several tests share.

use crate::params::{Table, DIMS, NAMES};

/// Parameters between 0 and 1.
pub(crate) fn unit_table() -> Table {
    let names: Vec<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    Table::new(&names, &[0.0; DIMS], &[1.0; DIMS], &[]).expect("names are our own")
}
