//! Patterns of file names as `glob(3)` reads them in one part of a path: `*`, `?`, `[a-z]`, `[!a-z]`, `\`.

/// Whether a part of a path must be looked for, and does not name one file.
pub(super) fn is_pattern(part: &str) -> bool {
    part.contains(['*', '?', '[', '\\'])
}

/// Whether `name` is one that `pattern` means. A leading dot must be written out.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with(['.', '\\']) {
        return false;
    }
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut here) = (0, 0);
    // Where to go on if what follows the last `*` does not fit: it takes one byte more.
    let mut again: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            again = Some((at, here));
            continue;
        }
        let fits = match name.get(here) {
            None if at == pattern.len() => return true,
            None => return false, // every `*` before is as short as it can be
            Some(byte) => one(&pattern[at..], *byte),
        };
        if let Some(length) = fits {
            at += length;
            here += 1;
        } else if let Some((after, from)) = again {
            again = Some((after, from + 1));
            (at, here) = (after, from + 1);
        } else {
            return false;
        }
    }
}

/// The length of what `pattern` starts with, where it means `byte`.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', literal, ..] => (*literal == byte).then_some(2),
        [b'[', rest @ ..] => match class(rest, byte) {
            Some((length, within)) => within.then_some(1 + length),
            None => (byte == b'[').then_some(1), // without an end it is a bracket
        },
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

/// The length of a class after its `[`, and whether `byte` is in it; `None` where it has no end.
fn class(class: &[u8], byte: u8) -> Option<(usize, bool)> {
    let inverted = matches!(class.first(), Some(b'!' | b'^'));
    let mut at = usize::from(inverted);
    let first = at;
    let mut within = false;
    loop {
        let from = *class.get(at)?;
        if from == b']' && at > first {
            return Some((at + 1, within != inverted));
        }
        let (to, length) = match class.get(at + 1..at + 3) {
            Some([b'-', to]) if *to != b']' => (*to, 3),
            _ => (from, 1),
        };
        at += length;
        within |= (from..=to).contains(&byte);
    }
}
