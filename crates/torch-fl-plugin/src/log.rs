//! The dispatch log: a line for every call of an operator on flagos, `aten::add.Tensor<tab>typed`.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;

static LOG: Mutex<Option<BufWriter<fs_err::File>>> = Mutex::new(None);

/// Begins a log, or with `None` ends it. The file is made anew.
pub(crate) fn set(path: Option<&Path>) -> std::io::Result<()> {
    let file = path.map(fs_err::File::create).transpose()?;
    let mut log = LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(old) = log.as_mut() {
        old.flush()?;
    }
    *log = file.map(BufWriter::new);
    Ok(())
}

/// One call. Written through at once: a log is read when the process has gone wrong.
pub(crate) fn line(name: &str, overload: &str, way: &str) {
    let mut log = LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(file) = log.as_mut() {
        let dot = if overload.is_empty() { "" } else { "." };
        let _ = writeln!(file, "{name}{dot}{overload}\t{way}");
        let _ = file.flush();
    }
}
