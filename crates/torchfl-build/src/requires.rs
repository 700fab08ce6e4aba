//! `Requires-Dist`: torch's release, and what the vendor's torch itself says of the distributions that bring libraries.

use std::path::Path;

use torchfl_wheel::{Requirement, normalize_name};

use crate::Error;

/// A distribution that the manifest says brings libraries.
pub(crate) struct Wanted<'a> {
    pub dist: &'a str,
    /// The manifest's own specifier (`==13.1`), for one that the vendor's torch does not pin.
    pub version: Option<&'a str>,
}

/// The requirement for each wanted distribution: the vendor's own line (pin, extras, markers), else the manifest's pin.
pub(crate) fn provided(
    wanted: &[Wanted<'_>],
    vendor: &[Requirement],
    vendor_path: &Path,
) -> Result<Vec<String>, Error> {
    let line = |wanted: &Wanted<'_>| {
        let named = vendor.iter().find(|r| r.name.as_ref() == normalize_name(wanted.dist) && !optional(r));
        match (named, wanted.version) {
            (Some(requirement), None) if requirement.version_or_url.is_some() => Ok(requirement.to_string()),
            (_, Some(version)) => Ok(format!("{}{version}", wanted.dist)),
            _ => Err(Error::Unpinned { dist: wanted.dist.to_owned(), torch: vendor_path.to_owned() }),
        }
    };
    wanted.iter().map(line).collect()
}

/// Whether a requirement belongs to an extra, so that a plain install does not bring it.
fn optional(requirement: &Requirement) -> bool {
    requirement.marker.try_to_string().is_some_and(|marker| marker.contains("extra"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vendor() -> Vec<Requirement> {
        [
            "cuda-toolkit[cublas,cudart]==13.0.3; platform_system == 'Linux'",
            "nvidia-nccl-cu13==2.29.7; platform_system == 'Linux'",
            "optree>=0.13.0; extra == 'optree'",
        ]
        .map(|line| torchfl_wheel::parse_requirement(line).unwrap())
        .to_vec()
    }

    #[test]
    fn pins_extras_and_markers_come_from_the_vendor() {
        let wanted = [
            Wanted { dist: "cuda_toolkit", version: None },
            Wanted { dist: "nvidia-nccl-cu13", version: Some("==2.30") },
        ];
        insta::assert_debug_snapshot!(provided(&wanted, &vendor(), Path::new("v.whl")).unwrap(), @r#"
        [
            "cuda-toolkit[cublas,cudart]==13.0.3 ; platform_system == 'Linux'",
            "nvidia-nccl-cu13==2.30",
        ]
        "#);
    }

    #[test]
    fn one_that_nobody_pins_is_an_error() {
        for dist in ["optree", "nvidia-cublas"] {
            let error =
                provided(&[Wanted { dist, version: None }], &vendor(), Path::new("v.whl")).unwrap_err();
            assert_eq!(error.code(), "E-BLD-011");
        }
    }
}
