//! One fault after another in a wheel that is sound: each is found, and nothing else is.

mod case;
mod dist;
mod elf;
mod load;
mod loaded;

pub(crate) use case::{BUNDLE, Case};

/// No rule is without a fault that it finds.
#[test]
fn every_rule_has_its_fault_here() {
    let here = [
        include_str!("dist.rs"),
        include_str!("elf.rs"),
        include_str!("load.rs"),
        include_str!("loaded.rs"),
        include_str!("../closure.rs"),
    ];
    for rule in torchfl_audit::RULES {
        let told = |text: &&str| text.lines().any(|line| line.trim_start().starts_with(rule.code));
        assert!(here.iter().any(told), "{}", rule.code);
    }
}
