//! `.netrc`: names and passwords by host.
//!
//! The format is that of ftp's manual page as curl reads it: words parted by blanks, a word with blanks in
//! double quotes, `\` before a character that is to stand for itself. Comments run from a `#` that begins a
//! word to the end of the line. `macdef` and what follows it up to an empty line is left out. A mistake is an
//! error: half a file of passwords is no file of passwords.

use std::fmt;

use crate::Error;

/// The entries of a netrc file, in their order.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Netrc {
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Eq)]
struct Entry {
    /// `None`: `default`.
    host: Option<String>,
    login: Login,
}

/// A name and a password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
}

/// Says that there is a login, and not which.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(…)")
    }
}

impl fmt::Debug for Netrc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Netrc({} entries)", self.entries.len())
    }
}

impl Netrc {
    /// Reads a whole file.
    ///
    /// # Errors
    ///
    /// [`Error::Netrc`]: a word that is none of the format's, a word that is missing, a quote that is not
    /// closed.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut words = Words { rest: text, line: 1 };
        let mut entries: Vec<Entry> = Vec::new();
        while let Some(word) = words.next()? {
            let line = words.line;
            let wrong = |what| Err(Error::Netrc { line, what });
            match word.as_str() {
                "machine" => {
                    let host = Some(words.value("a host is missing after `machine`")?);
                    entries.push(Entry { host, login: Login::default() });
                }
                "default" => entries.push(Entry { host: None, login: Login::default() }),
                "macdef" => words.skip_macro(),
                "login" | "password" | "account" => {
                    let value = words.value("a value is missing")?;
                    let Some(entry) = entries.last_mut() else {
                        return wrong("a login comes before the first `machine`");
                    };
                    match word.as_str() {
                        "login" => entry.login.name = value,
                        "password" => entry.login.password = value,
                        _ => {}
                    }
                }
                _ => {
                    return wrong(
                        "a word that is none of machine, default, login, password, account, macdef",
                    );
                }
            }
        }
        Ok(Self { entries })
    }

    /// The login for `host`: of the first entry that names it, else of the first `default`.
    pub fn login(&self, host: &str) -> Option<&Login> {
        let named =
            |entry: &&Entry| entry.host.as_deref().is_some_and(|known| known.eq_ignore_ascii_case(host));
        let found = self.entries.iter().find(named);
        let found = found.or_else(|| self.entries.iter().find(|entry| entry.host.is_none()));
        found.map(|entry| &entry.login)
    }
}

/// The words of a text.
struct Words<'a> {
    rest: &'a str,
    /// Of the word that was read last.
    line: usize,
}

impl Words<'_> {
    fn value(&mut self, missing: &'static str) -> Result<String, Error> {
        let line = self.line;
        self.next()?.ok_or(Error::Netrc { line, what: missing })
    }

    fn next(&mut self) -> Result<Option<String>, Error> {
        self.blanks();
        let line = self.line;
        let wrong = |what| Err(Error::Netrc { line, what });
        let quoted = self.rest.starts_with('"');
        let mut word = String::new();
        let mut letters = self.rest.char_indices().skip(usize::from(quoted));
        let mut end = self.rest.len();
        let mut closed = !quoted;
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' if quoted => {
                    (end, closed) = (at + 1, true);
                    break;
                }
                '\n' if quoted => return wrong("a quote that is not closed on its line"),
                '\\' => match letters.next() {
                    Some((_, letter)) if !letter.is_control() => word.push(letter),
                    _ => return wrong("a `\\` before nothing"),
                },
                letter if !quoted && letter.is_ascii_whitespace() => {
                    end = at;
                    break;
                }
                letter if letter.is_control() => return wrong("a control character"),
                letter => word.push(letter),
            }
        }
        if !closed {
            return wrong("a quote that is not closed on its line");
        }
        self.rest = &self.rest[end..];
        if quoted && self.rest.starts_with(|next: char| !next.is_ascii_whitespace()) {
            return wrong("a blank is missing after a quote");
        }
        Ok((quoted || !word.is_empty()).then_some(word))
    }

    /// Goes over blanks, line ends and comments.
    fn blanks(&mut self) {
        loop {
            let trimmed = self.rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
            let over = &self.rest[..self.rest.len() - trimmed.len()];
            self.line += over.matches('\n').count();
            self.rest = trimmed;
            if !self.rest.starts_with('#') {
                return;
            }
            self.rest = &self.rest[self.rest.find('\n').unwrap_or(self.rest.len())..];
        }
    }

    /// Goes to the first empty line.
    fn skip_macro(&mut self) {
        let end = self.rest.find("\n\n").map_or(self.rest.len(), |at| at + 1);
        self.line += self.rest[..end].matches('\n').count();
        self.rest = &self.rest[end..];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts<'a>(netrc: &'a Netrc, host: &str) -> Option<(&'a str, &'a str)> {
        netrc.login(host).map(|login| (login.name.as_str(), login.password.as_str()))
    }

    #[test]
    fn entries_by_host_and_the_default_last() {
        let text = "# mirrors\nmachine a.example login me password pa#ss # mine\n\tmachine b.example\nlogin \"two words\" \
                    account x\npassword \"q\\\"uote\"\ndefault login any password thing\nmachine c.example login late";
        let netrc = Netrc::parse(text).unwrap();
        assert_eq!(parts(&netrc, "A.Example"), Some(("me", "pa#ss")));
        assert_eq!(parts(&netrc, "b.example"), Some(("two words", "q\"uote")));
        assert_eq!(parts(&netrc, "c.example"), Some(("late", "")));
        assert_eq!(parts(&netrc, "d.example"), Some(("any", "thing")));
        assert_eq!(parts(&Netrc::parse("machine a login b").unwrap(), "aa"), None);
    }

    #[test]
    fn macros_are_left_out() {
        let netrc =
            Netrc::parse("macdef init\nmachine evil login x\n\nmachine a login b password c").unwrap();
        assert_eq!(parts(&netrc, "evil"), None);
        assert_eq!(parts(&netrc, "a"), Some(("b", "c")));
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_without_the_text() {
        let fault = |text: &str| Netrc::parse(text).unwrap_err().to_string();
        assert_eq!(
            fault("machine a\n\nlogin b pasword SECRET"),
            "line 3: a word that is none of machine, default, login, password, account, macdef"
        );
        assert_eq!(fault("login b"), "line 1: a login comes before the first `machine`");
        assert_eq!(fault("machine a login"), "line 1: a value is missing");
        assert_eq!(fault("machine"), "line 1: a host is missing after `machine`");
        assert_eq!(
            fault("machine a\npassword \"SECRET\n\""),
            "line 2: a quote that is not closed on its line"
        );
        assert_eq!(fault("machine a password \"SECRET"), "line 1: a quote that is not closed on its line");
        assert_eq!(fault("machine a password \"SEC\"RET"), "line 1: a blank is missing after a quote");
        assert_eq!(fault("machine a password \u{1}"), "line 1: a control character");
    }

    #[test]
    fn nothing_is_shown_of_a_login() {
        let netrc = Netrc::parse("machine a login me password SECRET").unwrap();
        assert_eq!(format!("{netrc:?} {:?}", netrc.login("a")), "Netrc(1 entries) Some(Login(…))");
    }

    fn quote(word: &str) -> String {
        format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = Netrc::parse(&text);
        }

        #[test]
        fn nor_does_a_text_of_its_words(text in "(machine|default|login|password|macdef|a|\"|#|\\\\| |\n){0,30}") {
            let _ = Netrc::parse(&text);
        }

        #[test]
        fn any_login_can_be_written(entries in prop::collection::vec(("[a-z.]{1,9}", "[^\\p{Cc}]{0,9}", "[^\\p{Cc}]{0,9}"), 0..5)) {
            let line = |(host, name, password): &(String, String, String)| {
                format!("machine {host} login {} password {}\n", quote(name), quote(password))
            };
            let text: String = entries.iter().map(line).collect();
            let netrc = Netrc::parse(&text).unwrap();
            for (host, ..) in &entries {
                let (_, name, password) = entries.iter().find(|(first, ..)| first == host).unwrap();
                prop_assert_eq!(parts(&netrc, host), Some((name.as_str(), password.as_str())));
            }
        }
    }
}
