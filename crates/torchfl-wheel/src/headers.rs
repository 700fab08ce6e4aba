//! The mail-like `Name: value` format that METADATA and WHEEL share.

use crate::Error;

/// What setuptools and Python's email package put before a continued line.
const INDENT: &str = "        ";
/// What PEP 314 and 345 put there.
const OLD_INDENT: &str = "       |";

/// Headers in order, and what follows the first empty line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<String>,
}

/// Splits `text`. A continued line joins its header's value behind a `\n`, less its indentation.
pub(crate) fn parse(text: &str, file: &str) -> Result<Parsed, Error> {
    let fail =
        |line: usize, reason: &str| Error::Headers { file: file.to_owned(), line, reason: reason.to_owned() };
    let mut headers: Vec<(String, String)> = Vec::new();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut number = 0;
    while !rest.is_empty() {
        number += 1;
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let line = line.strip_suffix('\r').unwrap_or(line);
        rest = after;
        if line.is_empty() {
            return Ok(Parsed { headers, body: (!rest.is_empty()).then(|| rest.to_owned()) });
        }
        if line.starts_with([' ', '\t']) {
            let (_, value) =
                headers.last_mut().ok_or_else(|| fail(number, "a continued line before any header"))?;
            value.push('\n');
            value.push_str(unindent(line));
            continue;
        }
        let (name, value) =
            line.split_once(':').ok_or_else(|| fail(number, "neither `Name: value` nor a blank first"))?;
        if !is_name(name) {
            return Err(fail(number, "the header's name holds a blank or a control character, or is empty"));
        }
        headers.push((name.to_owned(), value.trim_start_matches([' ', '\t']).to_owned()));
    }
    Ok(Parsed { headers, body: None })
}

/// The reverse of [`parse`]. Refuses what would not be read back.
pub(crate) fn render(headers: &[(String, String)], body: Option<&str>, file: &str) -> Result<String, Error> {
    let mut text = String::new();
    for (index, (name, value)) in headers.iter().enumerate() {
        let fail = |reason: &str| Error::Headers {
            file: file.to_owned(),
            line: index + 1,
            reason: format!("`{}`: {reason}", name.escape_debug()),
        };
        if !is_name(name) {
            return Err(fail("not a header's name"));
        }
        if value.contains(['\r', '\0']) {
            return Err(fail("the value holds a carriage return or a NUL"));
        }
        if value.starts_with([' ', '\t']) {
            return Err(fail("the value starts with a blank, which would be lost"));
        }
        text.push_str(name);
        text.push(':');
        for (number, line) in value.split('\n').enumerate() {
            text.push_str(if number == 0 { " " } else { INDENT });
            text.push_str(line);
            text.push('\n');
        }
    }
    if let Some(body) = body {
        text.push('\n');
        text.push_str(body);
    }
    Ok(text)
}

fn unindent(line: &str) -> &str {
    line.strip_prefix(INDENT)
        .or_else(|| line.strip_prefix(OLD_INDENT))
        .unwrap_or_else(|| line.trim_start_matches([' ', '\t']))
}

/// RFC 5322: printable ASCII but the colon.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b':')
}
