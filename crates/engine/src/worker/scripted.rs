//! Steps of a script: reads and writes go the way of all operations, the others are calls timed one by one.

use super::Worker;
use crate::recorder::RecordKind;
use crate::script::{open_options, ScriptRun};
use naslab_core::{limit, Error, ErrorKind, Op, OpKind, Result};
use naslab_workload::{flag, Step, StepKind};
use std::time::Duration;

/// How long a worker that waits for another sleeps between two looks.
const LOOK_AGAIN: Duration = Duration::from_micros(50);
/// Looks without sleeping first: most waits are short.
const SPINS: u32 = 200;

impl Worker<'_> {
    /// Carries steps out until one must wait, is in flight, or none is left; true if any was started.
    pub(super) fn fill_scripted(&mut self, script: &mut ScriptRun) -> Result<bool> {
        let mut started = false;
        self.wake = 0;
        while self.outstanding() == 0 {
            script.publish();
            self.check_flags();
            if self.stop.is_some() {
                script.give_up();
                break;
            }
            script.fetch()?;
            let Some(step) = script.next_step() else {
                self.stop = Some(super::StopReason::Done);
                script.give_up();
                break;
            };
            if !self.may_start(script, &step) || !self.start_step(script, &step)? {
                break;
            }
            started = true;
        }
        Ok(started)
    }

    /// Whether the step is due and what it waits for is done; else `wake` says when to look again.
    #[inline]
    fn may_start(&mut self, script: &ScriptRun, step: &Step) -> bool {
        if !script.is_free(step) {
            self.wait_for_another();
            return false;
        }
        self.scripted.waits = 0;
        let Some(due_ns) = script.due_ns(step) else { return true };
        let due = self.start + self.clock.ticks_of(due_ns);
        if due > self.clock.ticks() {
            self.wake = due;
            return false;
        }
        true
    }

    #[cold]
    fn wait_for_another(&mut self) {
        self.scripted.waits += 1;
        match () {
            () if self.clock.is_virtual() => {}
            () if self.scripted.waits < SPINS => std::hint::spin_loop(),
            () => std::thread::sleep(LOOK_AGAIN),
        }
    }

    /// Starts a step; false when the session has no room for it now.
    #[inline]
    fn start_step(&mut self, script: &mut ScriptRun, step: &Step) -> Result<bool> {
        let kind = match step.kind {
            StepKind::Read => OpKind::Read,
            StepKind::Write => OpKind::Write,
            StepKind::Flush => OpKind::Flush,
            _ => {
                self.scripted.step = script.taken() as i64;
                script.take();
                self.call(script, step);
                return Ok(true);
            }
        };
        let file = match script.handle(step) {
            Ok(file) => file,
            Err(error) => {
                script.take();
                self.record_call(step, RecordKind::of_op(kind), self.clock.ticks(), Err(error), None);
                return Ok(true);
            }
        };
        self.scripted.unique_bytes = script.written_bytes;
        self.scripted.step = script.taken() as i64;
        self.scripted.may_fail = step.flags & flag::FAILS != 0;
        let due_ns = script.due_ns(step);
        let op = Op { kind, file, offset_bytes: step.offset_bytes, len_bytes: step.len_bytes, due_ns };
        if let Some(announcement) = &mut self.scripted.announcement {
            announcement.step = script.taken() + 1;
        }
        if !self.start_op(&op)? {
            return Ok(false);
        }
        if kind == OpKind::Write {
            script.written_bytes += u64::from(step.len_bytes).next_multiple_of(4096);
        }
        script.take();
        Ok(true)
    }

    /// One call that moves no data.
    fn call(&mut self, script: &mut ScriptRun, step: &Step) {
        let kind = match step.kind {
            StepKind::Pause => return,
            StepKind::Open if step.flags & flag::CREATE != 0 => RecordKind::Create,
            StepKind::Open => RecordKind::Open,
            StepKind::Close => RecordKind::Close,
            StepKind::Stat => RecordKind::Stat,
            StepKind::Readdir => RecordKind::Readdir,
            StepKind::Mkdir => RecordKind::Mkdir,
            StepKind::Rmdir => RecordKind::Rmdir,
            StepKind::Remove => RecordKind::Remove,
            StepKind::Rename => RecordKind::Rename,
            StepKind::Truncate => RecordKind::Truncate,
            StepKind::Read | StepKind::Write | StepKind::Flush => return,
        };
        let due = script.due_ns(step).map(|due_ns| self.start + self.clock.ticks_of(due_ns));
        let start = self.clock.ticks();
        let outcome = limit::timed(true, || self.carry_out(script, step));
        self.record_call(step, kind, start, outcome, due);
    }

    fn carry_out(&mut self, script: &mut ScriptRun, step: &Step) -> Result<()> {
        let session = &mut *self.session;
        match step.kind {
            StepKind::Open => {
                let file = session.open(script.path(step.path), &open_options(step, self.read_stride as u32))?;
                match script.opened(step, file) {
                    Some(before) => session.close(before),
                    None => Ok(()),
                }
            }
            StepKind::Close => {
                let file = script.handle(step)?;
                script.closed(step);
                session.close(file)
            }
            StepKind::Stat => session.stat(script.path(step.path)).map(drop),
            StepKind::Readdir => session.readdir(script.path(step.path)).map(drop),
            StepKind::Mkdir => session.mkdir(script.path(step.path)),
            StepKind::Rmdir => session.rmdir(script.path(step.path)),
            StepKind::Remove => session.remove(script.path(step.path)),
            StepKind::Rename => session.rename(script.path(step.path), script.path(step.path_to)),
            StepKind::Truncate => session.set_len(script.handle(step)?, step.offset_bytes),
            StepKind::Read | StepKind::Write | StepKind::Flush | StepKind::Pause => Ok(()),
        }
    }

    /// Records how a call went. A step that failed when it was recorded may fail again.
    fn record_call(&mut self, step: &Step, kind: RecordKind, start: u64, outcome: Result<()>, due: Option<u64>) {
        let now = self.clock.ticks();
        match outcome {
            Err(error) if step.flags & flag::FAILS == 0 || error.kind.loses_session() => self.fail_call(&error, now),
            _ => {
                let service_ns = self.clock.span_ns(start, now);
                let response_ns = due.map_or(service_ns, |due| self.clock.span_ns(due.min(now), now));
                self.recorder.call(kind, now, service_ns, response_ns);
                self.log_call(start, service_ns);
                self.succeeded(0);
            }
        }
        self.after_completions(now);
    }

    fn log_call(&mut self, start: u64, service_ns: u64) {
        let start_ns = self.clock.span_ns(self.start, start);
        if let Some(log) = self.recorder.op_log.as_mut().filter(|log| log.len() < log.capacity()) {
            log.push([self.scripted.step, start_ns as i64, service_ns as i64, 0]);
        }
    }

    #[cold]
    fn fail_call(&mut self, error: &Error, now: u64) {
        if error.kind == ErrorKind::Interrupted {
            self.stop = Some(super::StopReason::Interrupted);
            return;
        }
        self.fail(error.op_error(), now);
        if error.kind.loses_session() {
            self.stop = Some(super::StopReason::Error);
        }
        self.scripted.first_error.get_or_insert_with(|| error.told());
    }
}
