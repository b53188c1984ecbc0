//! How a session's contexts come and go: logins with Kerberos on the NULL procedure (RFC 2203, section 5.2).

use crate::options::Settings;
use crate::rpc::{self, Prefix, Refusal, PROC_NULL};
use crate::security::{refused, Answer, Context, Control, Plan, Sec, Security, Stamp};
use crate::transport::Transport;
use crate::xdr::{Decoder, Put};
use naslab_core::{Error, ErrorKind, Result};
use naslab_gss::{Initiator, Order};

/// Calls of one login; one is usual, and clocks that differ may take another.
const MAX_ROUNDS: u32 = 4;

impl Transport {
    /// Logs in where the settings ask for Kerberos: all further calls are carried by contexts.
    pub fn secure(&mut self, settings: &Settings) -> Result<()> {
        if settings.sec == Sec::Sys {
            return Ok(());
        }
        let plan = Plan {
            sec: settings.sec,
            host: settings.host.trim_matches(['[', ']']).to_string(),
            principal: settings.principal.clone(),
            depth: settings.depth,
            calls: settings.context_calls,
        };
        // Tells a server that does not speak this version from one that takes no Kerberos.
        self.ping().map_err(at_connect)?;
        let outcome = self.make_contexts(plan);
        self.guard(outcome)
    }

    fn make_contexts(&mut self, plan: Plan) -> Result<()> {
        let first = self.establish(&plan)?;
        let count = first.needed(plan.depth);
        let mut security = Security::new(plan.clone(), first);
        for _ in 1..count {
            security.add(self.establish(&plan)?);
        }
        self.security = Some(Box::new(security));
        Ok(())
    }

    /// One login.
    fn establish(&mut self, plan: &Plan) -> Result<Context> {
        let (mut login, mut token) = Initiator::begin("nfs", &plan.host, plan.principal.as_deref(), Order::Free)?;
        let version = self.version.rpc();
        let mut handle = Vec::new();
        for round in 0..MAX_ROUNDS {
            let control = if round == 0 { Control::Init } else { Control::ContinueInit };
            let head = Prefix::gss(rpc::NFS_PROGRAM, version, control, plan.sec.service(), &handle);
            let answered = self.exchange(Some(0), |_, _, out, xid| {
                let start = head.begin(out, xid, PROC_NULL);
                out.put_u32(rpc::AUTH_NONE);
                out.put_u32(0);
                out.put_opaque(&token);
                rpc::seal(&mut out[start..], 0, 0);
                Ok(Stamp::NONE)
            });
            let (bytes, _) = answered.map_err(|error| match error.kind {
                // As Linux does whose rpc.svcgssd does not run.
                ErrorKind::Disconnected => refused(&plan.host, "it ended the connection"),
                _ => error,
            })?;
            let mut d = Decoder::new(&bytes);
            let (_, verifier, outcome) = rpc::reply_head(&mut d).map_err(|bad| bad.error("connect"))?;
            outcome.map_err(|refusal| login_refused(plan, refusal))?;
            let answer = Answer::take(&mut d).map_err(|bad| bad.error("connect"))?;
            if answer.is_refusal() {
                return Err(refused(&plan.host, &format!("GSS status {:#x}, {:#x}", answer.major, answer.minor)));
            }
            token = if login.is_complete() { Vec::new() } else { login.step(Some(&answer.token))? };
            if !answer.goes_on() {
                // Not before both sides are done does the signature over the window prove who the server is.
                login.verify(&answer.window.to_be_bytes(), verifier.body).map_err(at_connect)?;
                return Ok(Context::new(login, version, plan, &answer));
            }
            handle = answer.handle;
        }
        Err(Error::new(ErrorKind::Protocol, "connect", "the server's Kerberos login does not end"))
    }

    /// Puts a new context in the place of one that has carried all the calls it may; false where there is none.
    pub(crate) fn renew_context(&mut self) -> Result<bool> {
        let Some((at, plan)) = self.security.as_ref().and_then(|s| Some((s.spent()?, s.plan().clone()))) else {
            return Ok(false);
        };
        self.destroy_context(at)?;
        let context = self.establish(&plan)?;
        if let Some(security) = &mut self.security {
            security.replace(at, context);
        }
        self.events.context_renewal += 1;
        Ok(true)
    }

    /// Tells the server that the contexts end; failures do not matter.
    pub fn log_out(&mut self) {
        for at in 0..self.security.as_ref().map_or(0, |security| security.len()) {
            if self.destroy_context(at).is_err() {
                return;
            }
        }
    }

    fn destroy_context(&mut self, at: usize) -> Result<()> {
        let outcome = self.exchange(Some(0), |_, security, out, xid| match security {
            Some(security) => security.write_destroy(out, at, xid),
            None => Ok(Stamp::NONE),
        });
        outcome.map(drop)
    }
}

fn login_refused(plan: &Plan, refusal: Refusal) -> Error {
    let error = refusal.error("connect", plan.sec);
    match refusal {
        Refusal::Auth(_) => Error { status: error.status, ..refused(&plan.host, &error.message) },
        _ => error,
    }
}

fn at_connect(error: Error) -> Error {
    Error { operation: "connect", ..error }
}
