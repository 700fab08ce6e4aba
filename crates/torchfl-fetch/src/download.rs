//! One file from one place into its part, with as many attempts as it takes.

use std::io;
use std::path::Path;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::blocking::Response;
use reqwest::header::{
    CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_RANGE, LAST_MODIFIED, RANGE,
};
use torchfl_wheel::Sha256;

use crate::http::{Client, Fault, told};
use crate::mirror::{Address, shown};
use crate::store::Part;
use crate::{Error, Progress, WrongSum};

/// What counts as having come further: attempts are counted anew after it.
const FURTHER: u64 = 1 << 20;
/// A server that wants a longer pause is not waited for.
const LONGEST_PAUSE: Duration = Duration::from_mins(2);

/// How an attempt ended.
enum Step {
    /// All bytes are there, as far as the server says.
    Whole,
    /// Not yet.
    Passing { why: String, after: Option<Duration> },
    /// Not here.
    Lasting(String),
}

impl From<Fault> for Step {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Absent => Self::Lasting("it is not there".to_owned()),
            Fault::Passing { why, after } => Self::Passing { why, after },
            Fault::Lasting(why) => Self::Lasting(why),
        }
    }
}

/// Brings the file `name` of `mirror` into `part`; where the mirror cannot, says why. Of an expected sum, the
/// part has it afterwards.
pub(crate) fn from_mirror(
    client: &Client,
    mirror: &Address,
    name: &str,
    part: &mut Part,
    expected: Option<&Sha256>,
    progress: &dyn Progress,
) -> Result<Result<(), String>, Error> {
    let mut download = Download {
        client,
        mirror,
        name,
        expected,
        progress,
        pieces: 0,
        encoded: false,
        origin: shown(&mirror.url),
    };
    download.pieces = u32::from(part.len() > 0);
    let done = download.run(part);
    progress.stop();
    done
}

struct Download<'a> {
    client: &'a Client,
    mirror: &'a Address,
    name: &'a str,
    expected: Option<&'a Sha256>,
    progress: &'a dyn Progress,
    /// Answers that the part's bytes are of, those of earlier runs counted as one.
    pieces: u32,
    /// Whether one of them said that its bytes were packed.
    encoded: bool,
    origin: String,
}

impl Download<'_> {
    fn run(&mut self, part: &mut Part) -> Result<Result<(), String>, Error> {
        let (mut tries, mut furthest, mut again) = (0, part.len(), false);
        loop {
            let (why, after) = match self.attempt(part)? {
                Step::Whole if self.expected.is_none_or(|expected| part.sum() == *expected) => {
                    return Ok(Ok(()));
                }
                // Pieces of two versions of the file make a third: it gets one more chance as a whole.
                Step::Whole if self.pieces > 1 && !again => {
                    again = true;
                    self.progress
                        .note(&format!("{}: the pieces do not fit together: from the start", self.name));
                    self.restart(part)?;
                    continue;
                }
                Step::Whole => return Err(self.wrong(part)),
                Step::Lasting(why) => return Ok(Err(why)),
                Step::Passing { why, after } => (why, after),
            };
            if part.len() >= furthest.saturating_add(FURTHER) {
                (tries, furthest) = (0, part.len());
            }
            tries += 1;
            if tries > self.client.retries {
                return Ok(Err(format!("{why}; given up after {tries} attempts")));
            }
            let pause =
                self.client.pause.saturating_mul(1 << (tries - 1).min(10)).max(after.unwrap_or_default());
            if pause > LONGEST_PAUSE {
                return Ok(Err(format!("{why}; it wants to be left alone for {} s", pause.as_secs())));
            }
            self.progress.note(&format!(
                "{}: {why}; attempt {} of {} in {:.1} s",
                self.name,
                tries + 1,
                self.client.retries.saturating_add(1),
                pause.as_secs_f64()
            ));
            std::thread::sleep(pause);
        }
    }

    fn restart(&mut self, part: &mut Part) -> io::Result<()> {
        (self.pieces, self.encoded) = (0, false);
        part.restart()
    }

    fn wrong(&self, part: &Part) -> Error {
        let note = if self.encoded { "; the server says that it sent it packed" } else { "" };
        Box::new(WrongSum {
            name: self.name.to_owned(),
            origin: self.origin.clone(),
            expected: self.expected.copied().unwrap_or_else(|| part.sum()),
            found: part.sum(),
            bytes: Some(part.len()),
            note,
        })
        .into()
    }

    /// One request, for what is still missing.
    fn attempt(&mut self, part: &mut Part) -> Result<Step, Error> {
        let validator = part.validator(&self.origin);
        // Without a sum and without the server's word nothing says that the rest belongs to what is there.
        if part.len() > 0 && self.expected.is_none() && validator.is_none() {
            self.restart(part)?;
        }
        let mut headers = HeaderMap::new();
        if part.len() > 0 {
            let range = format!("bytes={}-", part.len());
            headers.extend(HeaderValue::from_str(&range).ok().map(|range| (RANGE, range)));
            let validator = validator.as_deref().and_then(|validator| HeaderValue::from_str(validator).ok());
            headers.extend(validator.map(|validator| (IF_RANGE, validator)));
        }
        let mut response = match self.client.get(self.mirror, self.name, &headers) {
            Ok(response) => response,
            Err(fault) => return Ok(fault.into()),
        };
        let total = match response.status() {
            StatusCode::PARTIAL_CONTENT => match range(&response) {
                Some((start, total)) if start == part.len() && part.len() > 0 => total,
                _ => {
                    self.restart(part)?;
                    return Ok(Step::Passing {
                        why: "the server sent another range".to_owned(),
                        after: None,
                    });
                }
            },
            StatusCode::RANGE_NOT_SATISFIABLE => {
                let whole = size(&response).is_none_or(|total| total == part.len());
                if whole && part.len() > 0 && self.pieces > 0 {
                    // As a piece of its own: if the sum is wrong, it is fetched anew.
                    self.pieces += 1;
                    return Ok(Step::Whole);
                }
                self.restart(part)?;
                return Ok(Step::Passing { why: "the server has a shorter file".to_owned(), after: None });
            }
            _ => {
                // It does not know ranges, or has another version by now.
                self.restart(part)?;
                part.set_validator(&self.origin, version(&response).as_deref())?;
                response.content_length()
            }
        };
        self.encoded |= text(&response, &CONTENT_ENCODING).is_some_and(|coding| coding != "identity");
        self.pieces += 1;
        self.progress.start(self.name, part.len(), total);
        if let Err(fault) = part.take(&mut response, self.progress)? {
            return Ok(Step::Passing { why: cut(fault), after: None });
        }
        match total {
            Some(total) if part.len() < total => {
                let why = format!("the connection ended after {} of {total} bytes", part.len());
                Ok(Step::Passing { why, after: None })
            }
            Some(total) if part.len() > total => {
                self.restart(part)?;
                Ok(Step::Passing { why: "the server sent more than it said".to_owned(), after: None })
            }
            _ => Ok(Step::Whole),
        }
    }
}

/// Brings the file at `from` into `part`.
pub(crate) fn from_file(
    from: &Path,
    name: &str,
    part: &mut Part,
    expected: Option<&Sha256>,
    origin: &str,
    progress: &dyn Progress,
) -> Result<(), Error> {
    part.restart()?;
    let mut file = fs_err::File::open(from)?;
    progress.start(name, 0, Some(file.metadata()?.len()));
    let taken = part.take(&mut file, progress);
    progress.stop();
    taken??;
    match expected {
        Some(expected) if part.sum() != *expected => Err(Box::new(WrongSum {
            name: name.to_owned(),
            origin: origin.to_owned(),
            expected: *expected,
            found: part.sum(),
            bytes: Some(part.len()),
            note: "",
        })
        .into()),
        _ => Ok(()),
    }
}

fn text<'a>(response: &'a Response, name: &HeaderName) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// What names the version of the file: a strong entity tag, else its date (RFC 9110, 13.1.5).
fn version(response: &Response) -> Option<String> {
    let tag = text(response, &ETAG).filter(|tag| tag.starts_with('"'));
    tag.or_else(|| text(response, &LAST_MODIFIED)).map(str::to_owned)
}

/// First byte and whole size of `Content-Range: bytes 5-9/10`.
fn range(response: &Response) -> Option<(u64, Option<u64>)> {
    let (span, total) = text(response, &CONTENT_RANGE)?.strip_prefix("bytes ")?.split_once('/')?;
    Some((span.split_once('-')?.0.trim().parse().ok()?, total.trim().parse().ok()))
}

/// The size in `Content-Range: bytes */10`.
fn size(response: &Response) -> Option<u64> {
    text(response, &CONTENT_RANGE)?.strip_prefix("bytes */")?.trim().parse().ok()
}

/// Why a body ended early.
fn cut(fault: io::Error) -> String {
    let kind = fault.kind();
    let Some(inner) = fault.into_inner() else { return kind.to_string() };
    match inner.downcast::<reqwest::Error>() {
        Ok(error) => told(*error),
        Err(other) => other.to_string(),
    }
}
