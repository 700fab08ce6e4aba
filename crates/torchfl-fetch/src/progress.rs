//! What a caller may show while a file is on its way.

/// Is told how a file gets on. Every method may be left out.
pub trait Progress {
    /// A file begins, or goes on: `have` of `total` bytes are there.
    fn start(&self, name: &str, have: u64, total: Option<u64>) {
        let _ = (name, have, total);
    }

    /// So many bytes more.
    fn advance(&self, bytes: u64) {
        let _ = bytes;
    }

    /// The file has come to its end, good or bad.
    fn stop(&self) {}

    /// Something that people may want to know: a pause, another attempt, another run at work.
    fn note(&self, text: &str) {
        let _ = text;
    }
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {}
