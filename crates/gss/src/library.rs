//! The library and its functions (RFC 2744), loaded when they are wanted.

use crate::loader::Library;
use naslab_core::{Error, ErrorKind, Result};
use std::ffi::{c_int, c_void, CStr};
use std::ptr::{null, null_mut};
use std::slice;
use std::sync::OnceLock;

/// MIT's library, by the name that its interface has kept since 1995.
const LIBRARY: &CStr = if cfg!(target_vendor = "apple") { c"libgssapi_krb5.dylib" } else { c"libgssapi_krb5.so.2" };
/// Whether this program has no loader that could bring a library in, as static programs of musl, and those of Windows.
const STATIC: bool = cfg!(any(not(unix), all(target_env = "musl", target_feature = "crt-static")));
/// Texts of one error that are asked for.
const MOST_TEXTS: u32 = 4;

/// A name, credential or context of the library's.
pub(crate) type Handle = *mut c_void;

/// `gss_buffer_desc`.
#[repr(C)]
pub(crate) struct Buffer {
    length: usize,
    value: *mut c_void,
}

impl Buffer {
    pub const EMPTY: Buffer = Buffer { length: 0, value: null_mut() };

    /// Describes bytes that the library only reads, and only while it is called.
    pub fn of(bytes: &[u8]) -> Buffer {
        Buffer { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }

    /// What the library put there.
    ///
    /// # Safety
    /// The library filled it and has not released it since.
    unsafe fn bytes(&self) -> &[u8] {
        if self.value.is_null() || self.length == 0 {
            return &[];
        }
        // SAFETY: as the caller says.
        unsafe { slice::from_raw_parts(self.value.cast(), self.length) }
    }
}

/// `gss_buffer_set_desc`.
#[repr(C)]
pub(crate) struct BufferSet {
    count: usize,
    elements: *mut Buffer,
}

impl BufferSet {
    /// The element at `index`. Only sets of the library's exist.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        if index >= self.count || self.elements.is_null() {
            return None;
        }
        // SAFETY: the library counted its elements and filled each.
        Some(unsafe { (*self.elements.add(index)).bytes() })
    }
}

/// `gss_OID_desc`.
#[repr(C)]
pub(crate) struct Oid {
    length: u32,
    elements: *const c_void,
}

impl Oid {
    pub fn of(bytes: &'static [u8]) -> Oid {
        Oid { length: bytes.len() as u32, elements: bytes.as_ptr().cast() }
    }
}

type ImportName = unsafe extern "C" fn(*mut u32, *const Buffer, *const Oid, *mut Handle) -> u32;
type Release = unsafe extern "C" fn(*mut u32, *mut Handle) -> u32;
type AcquireCred =
    unsafe extern "C" fn(*mut u32, Handle, u32, *const c_void, c_int, *mut Handle, *mut Handle, *mut u32) -> u32;
type InitSecContext = unsafe extern "C" fn(
    *mut u32,
    Handle,
    *mut Handle,
    Handle,
    *const Oid,
    u32,
    u32,
    *const c_void,
    *const Buffer,
    *mut *mut Oid,
    *mut Buffer,
    *mut u32,
    *mut u32,
) -> u32;
type DeleteSecContext = unsafe extern "C" fn(*mut u32, *mut Handle, *mut Buffer) -> u32;
type InquireByOid = unsafe extern "C" fn(*mut u32, Handle, *const Oid, *mut *mut BufferSet) -> u32;
type ReleaseBufferSet = unsafe extern "C" fn(*mut u32, *mut *mut BufferSet) -> u32;
type ReleaseBuffer = unsafe extern "C" fn(*mut u32, *mut Buffer) -> u32;
type GetMic = unsafe extern "C" fn(*mut u32, Handle, u32, *const Buffer, *mut Buffer) -> u32;
type VerifyMic = unsafe extern "C" fn(*mut u32, Handle, *const Buffer, *const Buffer, *mut u32) -> u32;
type Wrap = unsafe extern "C" fn(*mut u32, Handle, c_int, u32, *const Buffer, *mut c_int, *mut Buffer) -> u32;
type Unwrap = unsafe extern "C" fn(*mut u32, Handle, *const Buffer, *mut Buffer, *mut c_int, *mut u32) -> u32;
type ContextTime = unsafe extern "C" fn(*mut u32, Handle, *mut u32) -> u32;
type DisplayStatus = unsafe extern "C" fn(*mut u32, u32, c_int, *const Oid, *mut u32, *mut Buffer) -> u32;

/// What naslab calls of it.
pub(crate) struct Api {
    pub import_name: ImportName,
    pub release_name: Release,
    pub acquire_cred: AcquireCred,
    pub release_cred: Release,
    pub init_sec_context: InitSecContext,
    pub delete_sec_context: DeleteSecContext,
    pub inquire_by_oid: InquireByOid,
    pub release_buffer_set: ReleaseBufferSet,
    pub get_mic: GetMic,
    pub verify_mic: VerifyMic,
    pub wrap: Wrap,
    pub unwrap: Unwrap,
    pub context_time: ContextTime,
    release_buffer: ReleaseBuffer,
    display_status: DisplayStatus,
}

static API: OnceLock<Option<Api>> = OnceLock::new();

impl Api {
    /// The library, loaded once for the process. `Unsupported` where it is missing.
    pub fn get() -> Result<&'static Api> {
        API.get_or_init(|| Api::load(LIBRARY)).as_ref().ok_or_else(missing)
    }

    fn load(name: &CStr) -> Option<Api> {
        if STATIC {
            return None;
        }
        let library = Library::load(name)?;
        let find = |name: &CStr| library.find(name);
        // SAFETY: RFC 2744 (and gssapi_ext.h for the last two) declares these functions with these parameters, and the
        // library's name fixes its binary interface.
        unsafe {
            Some(Api {
                import_name: std::mem::transmute::<*mut c_void, ImportName>(find(c"gss_import_name")?),
                release_name: std::mem::transmute::<*mut c_void, Release>(find(c"gss_release_name")?),
                acquire_cred: std::mem::transmute::<*mut c_void, AcquireCred>(find(c"gss_acquire_cred")?),
                release_cred: std::mem::transmute::<*mut c_void, Release>(find(c"gss_release_cred")?),
                init_sec_context: std::mem::transmute::<*mut c_void, InitSecContext>(find(c"gss_init_sec_context")?),
                delete_sec_context: std::mem::transmute::<*mut c_void, DeleteSecContext>(find(
                    c"gss_delete_sec_context",
                )?),
                release_buffer: std::mem::transmute::<*mut c_void, ReleaseBuffer>(find(c"gss_release_buffer")?),
                display_status: std::mem::transmute::<*mut c_void, DisplayStatus>(find(c"gss_display_status")?),
                get_mic: std::mem::transmute::<*mut c_void, GetMic>(find(c"gss_get_mic")?),
                verify_mic: std::mem::transmute::<*mut c_void, VerifyMic>(find(c"gss_verify_mic")?),
                wrap: std::mem::transmute::<*mut c_void, Wrap>(find(c"gss_wrap")?),
                unwrap: std::mem::transmute::<*mut c_void, Unwrap>(find(c"gss_unwrap")?),
                context_time: std::mem::transmute::<*mut c_void, ContextTime>(find(c"gss_context_time")?),
                inquire_by_oid: std::mem::transmute::<*mut c_void, InquireByOid>(find(
                    c"gss_inquire_sec_context_by_oid",
                )?),
                release_buffer_set: std::mem::transmute::<*mut c_void, ReleaseBufferSet>(find(
                    c"gss_release_buffer_set",
                )?),
            })
        }
    }

    /// Copies what the library put into a buffer, and releases it.
    pub fn take(&self, buffer: &mut Buffer) -> Vec<u8> {
        let mut copy = Vec::new();
        self.append(buffer, &mut copy);
        copy
    }

    /// Appends what the library put into a buffer, and releases it.
    pub fn append(&self, buffer: &mut Buffer, to: &mut Vec<u8>) {
        // SAFETY: only the library fills buffers that begin empty; it is released once, here.
        unsafe {
            to.extend_from_slice(buffer.bytes());
            let mut minor = 0;
            (self.release_buffer)(&mut minor, buffer);
        }
    }

    /// What the library says of an error: of the mechanism where it says something, else of the call.
    pub fn text(&self, major: u32, minor: u32) -> String {
        let of_mechanism = if minor == 0 { String::new() } else { self.texts(minor, 2, &crate::KERBEROS) };
        let text = if of_mechanism.is_empty() { self.texts(major, 1, &[]) } else { of_mechanism };
        text.trim().trim_end_matches('.').to_string()
    }

    fn texts(&self, code: u32, kind: c_int, mechanism: &'static [u8]) -> String {
        let (oid, mut more) = (Oid::of(mechanism), 0);
        let oid: *const Oid = if mechanism.is_empty() { null() } else { &oid };
        let mut texts = Vec::new();
        for _ in 0..MOST_TEXTS {
            let (mut minor, mut text) = (0, Buffer::EMPTY);
            // SAFETY: `oid` is null or outlives the call; the library fills `text`.
            let major = unsafe { (self.display_status)(&mut minor, code, kind, oid, &mut more, &mut text) };
            texts.push(String::from_utf8_lossy(&self.take(&mut text)).into_owned());
            if major != 0 || more == 0 {
                break;
            }
        }
        texts.retain(|text| !text.is_empty());
        texts.join("; ")
    }
}

fn missing() -> Error {
    if STATIC {
        let message =
            "a Kerberos login needs the Kerberos library, which this program cannot load (it is statically linked, \
                       or one for Windows): log in without Kerberos, or measure with naslab's Python package on Linux";
        return Error::new(ErrorKind::Unsupported, "connect", message);
    }
    let message = "a Kerberos login needs the Kerberos library libgssapi_krb5.so.2, which is not installed: \
                   apt install libgssapi-krb5-2 (Debian, Ubuntu), or dnf install krb5-libs";
    Error::new(ErrorKind::Unsupported, "connect", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_its_package() {
        assert!(Api::load(c"libnaslab_has_no_such.so.1").is_none());
        // A library without these functions is none either.
        assert!(Api::load(c"libc.so.6").is_none());
        let error = missing();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        let named = if STATIC { "statically linked" } else { "apt install libgssapi-krb5-2" };
        assert!(error.message.contains(named), "{}", error.message);
    }
}
