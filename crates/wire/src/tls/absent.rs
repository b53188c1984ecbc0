//! In the place of TLS where its arithmetic cannot be had: it is refused before a connection is made.

use super::{TlsFacts, TlsOptions, TLS_OPERATION};
use crate::wire::Plain;
use naslab_core::{Error, ErrorKind, Result};
use std::time::Duration;

/// Never made here.
#[derive(Clone, Debug)]
pub enum Tls {}

/// Never made here.
#[derive(Debug)]
pub(crate) enum Session {}

impl Tls {
    /// Always an error.
    pub fn new(_options: &TlsOptions) -> Result<Tls> {
        let message = "TLS is not in this build: it needs x86-64 or 64-bit ARM; leave xprtsec= out here";
        Err(Error::new(ErrorKind::Unsupported, TLS_OPERATION, message))
    }
}

impl Session {
    pub fn begin(tls: &Tls, _host: &str, _plain: Plain<'_>, _timeout: Duration) -> Result<Session> {
        match *tls {}
    }

    pub fn facts(&self) -> TlsFacts {
        match *self {}
    }

    pub fn has_pending(&self) -> bool {
        match *self {}
    }

    pub fn receive(&mut self, _plain: Plain<'_>, _into: &mut [u8], _wait: crate::os::Wait) -> Result<usize> {
        match *self {}
    }

    pub fn take_opened(&mut self, _into: &mut [u8]) -> Result<usize> {
        match *self {}
    }

    pub fn send(
        &mut self,
        _plain: Plain<'_>,
        _parts: &[std::io::IoSlice<'_>],
        _wait: crate::os::Wait,
    ) -> Result<usize> {
        match *self {}
    }

    pub fn close(&mut self, _plain: Plain<'_>) {
        match *self {}
    }
}
