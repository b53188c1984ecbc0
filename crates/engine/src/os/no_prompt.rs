//! Where no thread can be made to begin on time.

/// A thread that shall begin at a given time: it is as prompt as others.
pub(crate) struct Prompt;

impl Prompt {
    /// Of the calling thread.
    pub fn new() -> Prompt {
        Prompt
    }
}
