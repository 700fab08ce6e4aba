//! Lists that all vendors share, as text files: one name a line, `#` begins a comment.

const FLAG_GEMS: &str = include_str!("../../../vendor-manifests/lists/flag-gems.txt");
const TRITON_OWNERS: &str = include_str!("../../../vendor-manifests/lists/triton-owners.txt");

/// The backends of `FlagGems`, sorted by name. With each, the environment variable for which `FlagGems` takes it
/// whatever `GEMS_VENDOR` says, where there is one.
pub fn flag_gems_backends() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    entries(FLAG_GEMS).filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.next()))
    })
}

/// Distributions that install the folder `triton/`, as normalised names (PEP 503), sorted.
pub fn triton_owners() -> impl Iterator<Item = &'static str> {
    entries(TRITON_OWNERS)
}

fn entries(list: &'static str) -> impl Iterator<Item = &'static str> {
    let entry = |line: &'static str| line.split('#').next().unwrap_or_default().trim();
    list.lines().map(entry).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_and_hold_what_the_embedded_manifests_name() {
        let backends: Vec<&str> = flag_gems_backends().map(|(name, _)| name).collect();
        let owners: Vec<&str> = triton_owners().collect();
        assert!(backends.is_sorted() && owners.is_sorted(), "{backends:?} {owners:?}");
        assert_eq!(flag_gems_backends().filter(|(_, variable)| variable.is_some()).count(), 1);
        for (name, _) in crate::embedded() {
            let triton = crate::find(name).unwrap().triton;
            for owner in triton.iter().flat_map(|triton| &triton.owners) {
                assert!(owners.contains(&owner.name.as_str()), "{name}: {}", owner.name);
            }
        }
    }
}
