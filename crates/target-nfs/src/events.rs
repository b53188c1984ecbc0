//! What the protocol did beside the operations, counted so that nothing waits or changes in silence.

/// Counters of one session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Events {
    /// Operations answered with DELAY or JUKEBOX.
    pub delay: u64,
    /// Operations answered with GRACE.
    pub grace: u64,
    /// Waits of set-up and metadata calls because of DELAY or JUKEBOX.
    pub delay_waits: u64,
    /// Waits of set-up and metadata calls because of GRACE.
    pub grace_waits: u64,
    /// Submissions that found no free slot or call.
    pub slot_wait: u64,
    /// Most calls outstanding at once.
    pub max_outstanding: u64,
    /// Wire requests beyond the first of operations that were larger than the server's maximum.
    pub split: u64,
    /// Reads answered with fewer bytes before the end of the file; the rest was asked for.
    pub short_read: u64,
    /// Writes that took fewer bytes than sent; the rest was sent again.
    pub short_write: u64,
    /// Writes or commits acknowledged as less durable than asked.
    pub less_stable: u64,
    /// Write verifiers that changed: the server restarted and may have lost data.
    pub verifier_changed: u64,
    /// Remembered folder handles that had become stale.
    pub stale_retry: u64,
    /// Connections opened again after the server closed them while idle.
    pub reconnect: u64,
    /// Leases renewed because the session was idle.
    pub lease_renewal: u64,
    /// Clients made anew because the server forgot them while idle.
    pub client_renewal: u64,
    /// Delegations that came without being asked for, and were given back.
    pub delegation_returned: u64,
    /// Replies that say that some state of this client was revoked.
    pub state_revoked: u64,
    /// Opens that the server had revoked, and that were given up so that it no longer tells of them.
    pub state_freed: u64,
    /// Calls whose answer was lost in an outage, and that the session in which they were made answered after it.
    pub answer_replayed: u64,
    /// Replies in more than one record fragment.
    pub fragmented_reply: u64,
    /// Flushes without a COMMIT: the server had acknowledged every write as durable.
    pub commit_not_needed: u64,
    /// Slots of a 4.1 session whose next call the server took for a repetition; it was sent again with another number.
    pub slot_repaired: u64,
    /// Kerberos contexts made anew because the old one had carried all the calls it may.
    pub context_renewal: u64,
}

impl Events {
    /// As names and counts; those that never happened are left out.
    pub fn list(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("delay", self.delay),
            ("grace", self.grace),
            ("delay_waits", self.delay_waits),
            ("grace_waits", self.grace_waits),
            ("slot_wait", self.slot_wait),
            ("max_outstanding", self.max_outstanding),
            ("split", self.split),
            ("short_read", self.short_read),
            ("short_write", self.short_write),
            ("less_stable", self.less_stable),
            ("verifier_changed", self.verifier_changed),
            ("stale_retry", self.stale_retry),
            ("reconnect", self.reconnect),
            ("lease_renewal", self.lease_renewal),
            ("client_renewal", self.client_renewal),
            ("delegation_returned", self.delegation_returned),
            ("state_revoked", self.state_revoked),
            ("state_freed", self.state_freed),
            ("answer_replayed", self.answer_replayed),
            ("fragmented_reply", self.fragmented_reply),
            ("commit_not_needed", self.commit_not_needed),
            ("slot_repaired", self.slot_repaired),
            ("context_renewal", self.context_renewal),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}
