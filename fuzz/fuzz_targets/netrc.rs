//! A netrc file of any text; a login that was read can be written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use torchfl_fetch::Netrc;

fuzz_target!(|text: &str| {
    let Ok(netrc) = Netrc::parse(text) else { return };
    let Some(login) = netrc.login("host.example") else { return };
    let quoted = |word: &str| format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""));
    let again = format!("default login {} password {}", quoted(&login.name), quoted(&login.password));
    assert!(Netrc::parse(&again).is_ok_and(|again| again.login("host.example") == Some(login)));
});
