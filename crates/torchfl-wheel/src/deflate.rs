//! Block-parallel deflate: the bytes do not depend on the number of threads.
//!
//! A member is cut into blocks of [`BLOCK`] bytes. Each is compressed by a fresh encoder that knows the
//! 32 KiB before it, and ends on a sync flush, which is a byte boundary; so the blocks' outputs make one
//! stream when they are put one behind the other. An encoder is never reset and used again: with a
//! dictionary, zlib-rs 0.6 lets earlier blocks show in the bytes then, and level 1 panics.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use flate2::{Compress, FlushCompress, Status};

use crate::digest::{Hasher, Sha256};
use crate::probe;
use crate::{Compression, Error, Source};

/// Input bytes of one block. Smaller ones cost size (the first bytes of each find few matches), larger
/// ones memory.
pub(crate) const BLOCK: usize = 1 << 20;
/// How far back deflate can refer.
const WINDOW: usize = 32 << 10;
/// Blocks under way beyond one a thread, so that a slow one at the front does not stop the others.
const AHEAD: usize = 4;
/// The longest stored block (RFC 1951, 3.2.4), and what precedes its bytes.
const STORED_MAX: usize = 65_535;
const STORED_HEAD: usize = 5;

impl Compression {
    /// The encoder's level; `docs/adr/0003-deflate.md` has the figures that they were chosen by.
    fn level(self) -> flate2::Compression {
        flate2::Compression::new(match self {
            Self::Normal => 5,
            Self::Fast => 1,
        })
    }
}

/// One block's worth of work.
#[derive(Default)]
pub(crate) struct Job {
    /// The window, then the block's own bytes.
    data: Vec<u8>,
    /// Length of the window.
    window: usize,
    /// Whether the stream ends here.
    last: bool,
    /// Where the output goes; returned with the job, so that the memory is used again.
    out: Vec<u8>,
    crc: crc32fast::Hasher,
}

#[cfg(test)]
impl Job {
    /// Bytes of the block itself.
    pub(crate) fn len(&self) -> usize {
        self.data.len() - self.window
    }
}

/// What compresses one job. A parameter so that tests can make it fail.
pub(crate) type Encode = fn(Compression, &mut Job) -> Result<(), String>;

/// Compresses the job's block into its `out`, and takes the CRC-32 of its bytes.
pub(crate) fn encode(compression: Compression, job: &mut Job) -> Result<(), String> {
    let (window, data) = job.data.split_at(job.window);
    job.out.clear();
    job.crc = crc32fast::Hasher::new();
    job.crc.update(data);
    if probe::is_incompressible(data) || !deflate(compression, window, data, job.last, &mut job.out)? {
        job.out.clear();
        store(data, job.last, &mut job.out);
    }
    Ok(())
}

/// Says whether the output is complete and not longer than that of [`store`].
fn deflate(
    compression: Compression,
    window: &[u8],
    data: &[u8],
    last: bool,
    out: &mut Vec<u8>,
) -> Result<bool, String> {
    // Level 1 has fixed codes only and makes up to an eighth more of its input. What runs out of this room
    // is longer than stored bytes, so it is not wanted anyway.
    let limit = stored_len(data.len());
    out.reserve(limit + 1);
    let mut encoder = Compress::new(compression.level(), false);
    if !window.is_empty() {
        encoder.set_dictionary(window).map_err(|error| error.to_string())?;
    }
    let flush = if last { FlushCompress::Finish } else { FlushCompress::Sync };
    let status = encoder.compress_vec(data, out, flush).map_err(|error| error.to_string())?;
    if out.len() > limit {
        return Ok(false);
    }
    // There was room left, so nothing may be missing.
    if encoder.total_in() != data.len() as u64 || (last && status != Status::StreamEnd) {
        return Err(format!("deflate stopped after {} of {} bytes", encoder.total_in(), data.len()));
    }
    Ok(true)
}

/// Length of [`store`]'s output.
fn stored_len(len: usize) -> usize {
    len + STORED_HEAD * len.div_ceil(STORED_MAX)
}

fn store(data: &[u8], last: bool, out: &mut Vec<u8>) {
    out.reserve(stored_len(data.len()));
    let mut pieces = data.chunks(STORED_MAX).peekable();
    while let Some(piece) = pieces.next() {
        let len = piece.len() as u16;
        out.push(u8::from(last && pieces.peek().is_none()));
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&(!len).to_le_bytes());
        out.extend_from_slice(piece);
    }
}

/// Runs `encode`; a panic inside becomes an error like any other.
fn guarded(encode: Encode, compression: Compression, job: &mut Job) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| encode(compression, job))).unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
        Err(text.or_else(|| cause.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned()))
    })
}

type Done = (u64, Job, Result<(), String>);

/// The threads that compress, and the loop that feeds them and takes their output in order.
pub(crate) struct Pool {
    compression: Compression,
    encode: Encode,
    threads: usize,
    workers: Option<Workers>,
    spare: Vec<Job>,
}

struct Workers {
    jobs: Option<Sender<(u64, Job)>>,
    done: Receiver<Done>,
    handles: Vec<JoinHandle<()>>,
}

/// What [`Pool::compress`] learnt about the bytes.
pub(crate) struct Digests {
    pub(crate) crc: u32,
    pub(crate) sha256: Sha256,
}

impl Pool {
    pub(crate) fn new(threads: usize, compression: Compression, encode: Encode) -> Self {
        Self { compression, encode, threads: threads.max(1), workers: None, spare: Vec::new() }
    }

    /// Compresses all of `source`, which is not empty, into `sink`, in pieces. `consumed` hears how many input
    /// bytes were read. After an error the pool is of no further use.
    pub(crate) fn compress(
        &mut self,
        member: &str,
        source: &dyn Source,
        consumed: &mut dyn FnMut(u64),
        sink: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<Digests, Error> {
        let blocks = source.len().div_ceil(BLOCK as u64);
        let mut sha256 = Hasher::default();
        let mut crc = crc32fast::Hasher::new();
        let fail = |reason| Error::Worker { member: member.to_owned(), reason };
        let mut accept = |job: &Job| {
            crc.combine(&job.crc);
            sink(&job.out)
        };
        if blocks <= 1 {
            let mut job = self.read(member, source, 0, &mut sha256)?;
            consumed(source.len());
            guarded(self.encode, self.compression, &mut job).map_err(fail)?;
            accept(&job)?;
            self.spare.push(job);
        } else {
            // Jobs from the oldest unwritten one on; `None` while a thread has it.
            let mut pending: VecDeque<Option<Job>> = VecDeque::new();
            let depth = self.threads + AHEAD;
            let (mut written, mut sent) = (0, 0);
            while written < blocks {
                while sent < blocks && pending.len() < depth {
                    let job = self.read(member, source, sent, &mut sha256)?;
                    consumed((job.data.len() - job.window) as u64);
                    self.send(sent, job).map_err(fail)?;
                    pending.push_back(None);
                    sent += 1;
                }
                let (index, job, result) = self.receive().map_err(fail)?;
                result.map_err(fail)?;
                if let Some(slot) = pending.get_mut((index - written) as usize) {
                    *slot = Some(job);
                }
                while let Some(Some(_)) = pending.front() {
                    if let Some(Some(job)) = pending.pop_front() {
                        accept(&job)?;
                        self.spare.push(job);
                        written += 1;
                    }
                }
            }
        }
        Ok(Digests { crc: crc.finalize(), sha256: sha256.finish() })
    }

    fn read(
        &mut self,
        member: &str,
        source: &dyn Source,
        index: u64,
        sha256: &mut Hasher,
    ) -> Result<Job, Error> {
        let start = index * BLOCK as u64;
        let end = source.len().min(start + BLOCK as u64);
        let offset = start.saturating_sub(WINDOW as u64);
        let mut job = self.spare.pop().unwrap_or_default();
        job.window = (start - offset) as usize;
        job.last = end == source.len();
        job.data.resize((end - offset) as usize, 0);
        source.read_exact_at(offset, &mut job.data).map_err(|error| Error::SourceRead {
            member: member.to_owned(),
            offset,
            source: error,
        })?;
        sha256.update(&job.data[job.window..]);
        Ok(job)
    }

    fn send(&mut self, index: u64, job: Job) -> Result<(), String> {
        let workers = match &mut self.workers {
            Some(workers) => workers,
            none => none.insert(Workers::start(self.threads, self.compression, self.encode)?),
        };
        let sent = workers.jobs.as_ref().map(|jobs| jobs.send((index, job)));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err("all threads have ended".to_owned()) }
    }

    fn receive(&self) -> Result<Done, String> {
        let ended = || "all threads have ended".to_owned();
        self.workers.as_ref().ok_or_else(ended)?.done.recv().map_err(|_| ended())
    }
}

impl Workers {
    fn start(threads: usize, compression: Compression, encode: Encode) -> Result<Self, String> {
        let (jobs, queue) = channel::<(u64, Job)>();
        let (results, done) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let mut workers = Self { jobs: Some(jobs), done, handles: Vec::new() };
        for _ in 0..threads {
            let (queue, results) = (Arc::clone(&queue), results.clone());
            let work = move || {
                // The lock is held while waiting, so the others wait for the lock instead of the queue.
                while let Some((index, mut job)) = queue.lock().ok().and_then(|queue| queue.recv().ok()) {
                    let result = guarded(encode, compression, &mut job);
                    if results.send((index, job, result)).is_err() {
                        break;
                    }
                }
            };
            match std::thread::Builder::new().name("deflate".to_owned()).spawn(work) {
                Ok(handle) => workers.handles.push(handle),
                Err(error) if workers.handles.is_empty() => {
                    return Err(format!("cannot start a thread: {error}"));
                }
                // Fewer threads than asked for change the time, not the bytes.
                Err(_) => break,
            }
        }
        Ok(workers)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.jobs = None;
        for handle in self.handles.drain(..) {
            // The thread's work is guarded; nothing is left to report here.
            let _ = handle.join();
        }
    }
}
