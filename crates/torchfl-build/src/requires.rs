//! `Requires-Dist`: torch's release, and what the vendor's torch itself says of the distributions that bring libraries
//! and of Triton.

use std::path::Path;

use pep440_rs::Operator;
use pep508_rs::VersionOrUrl;
use torchfl_manifest::Supplier;
use torchfl_manifest::resolve::Triton;
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

/// Triton, where the package index supplies it: Inductor generates code for the release that torch's own METADATA pins,
/// and the stock CPU torch that the wheel meets requires none. The vendor's, or none at all, is never required:
/// docs/adr/0006-triton.md.
pub(crate) fn triton(
    triton: Option<&Triton>,
    vendor: &[Requirement],
    vendor_path: &Path,
) -> Result<Vec<String>, Error> {
    let Some(triton) = triton.filter(|triton| triton.supplier == Supplier::Pypi) else {
        return Ok(Vec::new());
    };
    let wanted = Wanted { dist: "triton", version: triton.version.as_deref() };
    Ok(provided(&[wanted], vendor, vendor_path)?.concat())
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

    fn supplied(supplier: Supplier, version: Option<&str>) -> Triton {
        Triton { supplier, version: version.map(str::to_owned), owners: Vec::new(), target: None }
    }

    #[test]
    fn triton_is_required_of_the_index_alone() {
        let line = "triton==3.7.1; platform_system == 'Linux' and python_version < '3.15'";
        let torch = [torchfl_wheel::parse_requirement(line).unwrap()];
        let lines = |triton: Option<&Triton>| super::triton(triton, &torch, Path::new("v.whl")).unwrap();
        let index = lines(Some(&supplied(Supplier::Pypi, None)));
        assert_eq!(index, ["triton==3.7.1 ; python_full_version < '3.15' and platform_system == 'Linux'"]);
        assert_eq!(lines(Some(&supplied(Supplier::Pypi, Some("==3.6.0")))), ["triton==3.6.0"]);
        for none in [None, Some(supplied(Supplier::Vendor, None)), Some(supplied(Supplier::None, None))] {
            assert_eq!(lines(none.as_ref()), [""; 0], "{none:?}");
        }
        let nobody = super::triton(Some(&supplied(Supplier::Pypi, None)), &vendor(), Path::new("v.whl"));
        assert_eq!(nobody.unwrap_err().code(), "E-BLD-011");
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
