//! The system's loader of libraries.

use std::ffi::{c_void, CStr};

/// A library that stays loaded.
pub(crate) struct Library(#[allow(dead_code)] *mut c_void);

#[cfg(unix)]
impl Library {
    /// The library of this name; none where the system has none.
    pub fn load(name: &CStr) -> Option<Library> {
        // SAFETY: the name ends in a zero byte; the library's own initialisation is what every program of it runs.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!library.is_null()).then_some(Library(library))
    }

    /// A function of it.
    pub fn find(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the library stays loaded; the name ends in a zero byte.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }
}

#[cfg(not(unix))]
impl Library {
    /// None: what would be loaded here has other names and another interface.
    pub fn load(_name: &CStr) -> Option<Library> {
        None
    }

    /// A function of it.
    pub fn find(&self, _name: &CStr) -> Option<*mut c_void> {
        None
    }
}
