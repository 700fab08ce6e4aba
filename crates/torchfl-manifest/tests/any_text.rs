//! No text makes the reader panic, and each problem lies inside the text.

use proptest::prelude::*;
use torchfl_manifest::{Error, Manifest, Request, check, resolve};

const RIGHT: &str = include_str!("metax.toml");

fn read(text: &str) -> Result<(), TestCaseError> {
    match Manifest::parse(text, "any") {
        Ok(manifest) => {
            check(&manifest);
            let _ = resolve(&manifest, &Request::default());
        }
        Err(Error::Invalid { problems, .. }) => {
            prop_assert!(!problems.is_empty());
            for problem in problems {
                prop_assert!(text.get(problem.span.clone()).is_some(), "{problem:?}");
                prop_assert!(problem.line <= text.lines().count().max(1) + 1);
            }
        }
        Err(other) => prop_assert!(false, "{other}"),
    }
    Ok(())
}

proptest! {
    #[test]
    fn random_text(text in any::<String>()) {
        read(&text)?;
    }

    #[test]
    fn a_right_manifest_with_a_piece_replaced(at in 0..RIGHT.len(), len in 0..40_usize, new in "[ -~\n]{0,12}") {
        let end = (at + len).min(RIGHT.len());
        read(&format!("{}{new}{}", &RIGHT[..at], &RIGHT[end..]))?;
    }

    #[test]
    fn any_search_path_entry(entry in "[$}{ORIGINsdk/:.a-z é]{0,20}") {
        read(&RIGHT.replace("{sdk}/lib64", &entry))?;
    }

    #[test]
    fn any_string_for_any_value(new in "\\PC{0,30}", index in 0..60_usize) {
        let literal = format!("{new:?}");
        let strings: Vec<_> = RIGHT.match_indices('"').map(|(at, _)| at).collect();
        let (start, end) = (strings[index * 2], strings[index * 2 + 1]);
        read(&format!("{}{literal}{}", &RIGHT[..start], &RIGHT[end + 1..]))?;
    }
}
