//! `Requires-Dist`: torch's release, and what the vendor's torch itself says of the distributions that bring libraries.

use std::path::Path;

use pep440_rs::Operator;
use pep508_rs::VersionOrUrl;
use torchfl_wheel::{Requirement, normalize_name};

use crate::Error;

/// A distribution that the manifest says brings libraries.
pub(crate) struct Wanted<'a> {
    pub dist: &'a str,
    /// The manifest's own specifier (`==13.1`), for one that the vendor's torch does not pin.
    pub version: Option<&'a str>,
}

/// The requirements for each wanted distribution: the vendor's own line (pin, extras, markers), else the manifest's pin.
pub(crate) fn provided(
    wanted: &[Wanted<'_>],
    vendor: &[Requirement],
    vendor_path: &Path,
) -> Result<Vec<Vec<String>>, Error> {
    let lines = |wanted: &Wanted<'_>| {
        if let Some(version) = wanted.version {
            return Ok(vec![format!("{}{version}", wanted.dist)]);
        }
        let named = |r: &&Requirement| r.name.as_ref() == normalize_name(wanted.dist) && !optional(r);
        // More than one where the pin depends on the Python or the machine.
        let own: Vec<&Requirement> = vendor.iter().filter(named).collect();
        if own.is_empty() || !own.iter().all(|r| pinned(r)) {
            return Err(Error::Unpinned { dist: wanted.dist.to_owned(), torch: vendor_path.to_owned() });
        }
        Ok(own.iter().map(ToString::to_string).collect())
    };
    wanted.iter().map(lines).collect()
}

/// Whether a requirement allows one version only. A range would let an ABI in that nobody has seen.
fn pinned(requirement: &Requirement) -> bool {
    match &requirement.version_or_url {
        Some(VersionOrUrl::VersionSpecifier(specifiers)) => {
            specifiers.iter().any(|s| matches!(s.operator(), Operator::Equal | Operator::ExactEqual))
        }
        _ => false,
    }
}

/// Whether a requirement belongs to an extra, so that a plain install does not bring it.
fn optional(requirement: &Requirement) -> bool {
    requirement.marker.try_to_string().is_some_and(|marker| marker.contains("extra =="))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vendor() -> Vec<Requirement> {
        [
            "cuda-toolkit[cublas,cudart]==13.0.3; platform_system == 'Linux'",
            "nvidia-nccl-cu13==2.29.7; platform_system == 'Linux'",
            "optree==0.13.0; extra == 'optree'",
            "nvidia-range>=13,<14",
            "nvidia-split==1.0; python_version < '3.12'",
            "nvidia-split==2.0; python_version >= '3.12'",
        ]
        .map(|line| torchfl_wheel::parse_requirement(line).unwrap())
        .to_vec()
    }

    #[test]
    fn pins_extras_and_markers_come_from_the_vendor() {
        let wanted = [
            Wanted { dist: "cuda_toolkit", version: None },
            Wanted { dist: "nvidia-nccl-cu13", version: Some("==2.30") },
            Wanted { dist: "nvidia-split", version: None },
        ];
        insta::assert_debug_snapshot!(provided(&wanted, &vendor(), Path::new("v.whl")).unwrap().concat(), @r#"
        [
            "cuda-toolkit[cublas,cudart]==13.0.3 ; platform_system == 'Linux'",
            "nvidia-nccl-cu13==2.30",
            "nvidia-split==1.0 ; python_full_version < '3.12'",
            "nvidia-split==2.0 ; python_full_version >= '3.12'",
        ]
        "#);
    }

    #[test]
    fn one_that_nobody_pins_is_an_error() {
        for dist in ["optree", "nvidia-cublas", "nvidia-range"] {
            let error =
                provided(&[Wanted { dist, version: None }], &vendor(), Path::new("v.whl")).unwrap_err();
            assert_eq!(error.code(), "E-BLD-011");
        }
    }
}
