//! The manifests of `vendor-manifests/` are right, and say what is known about them.

use torchfl_manifest::{Manifest, Request, check, embedded, resolve};

#[test]
fn every_manifest_parses_resolves_and_is_named_after_its_file() {
    assert!(embedded().len() >= 3);
    for (name, text) in embedded() {
        let manifest = Manifest::parse(text, name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(manifest.name(), *name);
        assert_eq!(check(&manifest), [], "{name}");
        for tag in manifest.python.tags.iter() {
            let request = Request { python: Some(tag.to_string()), ..Request::default() };
            let resolved = resolve(&manifest, &request).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(resolved.name, *name);
            assert!(!resolved.bundle.open.is_empty());
            assert!(serde_json::to_string(&resolved).unwrap().contains("\"glibc\":\"2.28\""));
        }
    }
}
