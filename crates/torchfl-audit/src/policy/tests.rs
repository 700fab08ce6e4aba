use super::*;

fn verdict(glibc: (u32, u32), arch: &str, file: &str, version: &str) -> Verdict {
    allows(&promised(glibc, arch), file, version)
}

fn too_new(limit: &str) -> Verdict {
    Verdict::TooNew { limit: Some(limit.to_owned()) }
}

/// PEP 571 and PEP 599 state them for 2.12 and 2.17; the others are auditwheel's.
#[test]
fn the_newest_versions() {
    for (glibc, file, newest, newer) in [
        ((2, 5), "libstdc++.so.6", "GLIBCXX_3.4.8", "GLIBCXX_3.4.9"),
        ((2, 12), "libc.so.6", "GLIBC_2.12", "GLIBC_2.13"),
        ((2, 12), "libstdc++.so.6", "CXXABI_1.3.3", "CXXABI_1.3.4"),
        ((2, 12), "libstdc++.so.6", "GLIBCXX_3.4.13", "GLIBCXX_3.4.14"),
        ((2, 12), "libgcc_s.so.1", "GCC_4.5.0", "GCC_4.6.0"),
        ((2, 17), "libc.so.6", "GLIBC_2.17", "GLIBC_2.18"),
        ((2, 17), "libstdc++.so.6", "CXXABI_1.3.7", "CXXABI_1.3.8"),
        ((2, 17), "libstdc++.so.6", "GLIBCXX_3.4.19", "GLIBCXX_3.4.20"),
        ((2, 17), "libgcc_s.so.1", "GCC_4.8.0", "GCC_7.0.0"),
        ((2, 17), "libz.so.1", "ZLIB_1.2.5.2", "ZLIB_1.2.7.1"),
        ((2, 28), "libstdc++.so.6", "GLIBCXX_3.4.24", "GLIBCXX_3.4.25"),
        ((2, 28), "libstdc++.so.6", "CXXABI_1.3.11", "CXXABI_1.3.12"),
        ((2, 35), "libgcc_s.so.1", "GCC_12.0.0", "GCC_13.0.0"),
    ] {
        assert_eq!(verdict(glibc, "x86_64", file, newest), Verdict::Yes, "{newest}");
        assert_eq!(verdict(glibc, "x86_64", file, newer), too_new(newest), "{newer}");
    }
}

/// As text `2.5` is above `2.28`, and `3.4.9` above `3.4.30`.
#[test]
fn versions_are_compared_as_numbers() {
    assert_eq!(verdict((2, 28), "x86_64", "libc.so.6", "GLIBC_2.5"), Verdict::Yes);
    assert_eq!(verdict((2, 28), "x86_64", "libc.so.6", "GLIBC_2.2.5"), Verdict::Yes);
    assert_eq!(verdict((2, 5), "x86_64", "libc.so.6", "GLIBC_2.28"), too_new("GLIBC_2.5"));
    assert_eq!(verdict((2, 17), "x86_64", "libstdc++.so.6", "GLIBCXX_3.4"), Verdict::Yes);
}

/// No row is for 2.30 or 2.25; distributions with it may have what the row before says.
#[test]
fn between_rows_the_older_holds() {
    assert_eq!(promised((2, 30), "x86_64").newest, promised((2, 28), "x86_64").newest);
    assert_eq!(promised((2, 25), "aarch64").newest, promised((2, 24), "aarch64").newest);
    assert_eq!(promised((2, 99), "x86_64").newest, promised((2, 41), "x86_64").newest);
    assert_eq!(promised((2, 1), "x86_64").newest, promised((2, 5), "x86_64").newest);
    assert_eq!(verdict((2, 30), "x86_64", "libc.so.6", "GLIBC_2.30"), Verdict::Yes);
}

/// Amazon Linux 2 has glibc 2.26 and an older libstdc++, on x86-64 alone.
#[test]
fn rows_of_one_architecture_end_with_their_glibc() {
    let limit = |glibc, arch| promised(glibc, arch).newest.glibcxx;
    assert_eq!(limit((2, 26), "x86_64"), Some("3.4.22"));
    assert_eq!(limit((2, 26), "s390x"), Some("3.4.24"));
    assert_eq!(limit((2, 27), "x86_64"), Some("3.4.24"));
    assert_eq!(promised((2, 17), "x86_64").newest.atomic, None);
    assert_eq!(promised((2, 17), "aarch64").newest.atomic, Some("1.0"));
    assert_eq!(promised((2, 24), "x86_64").newest.atomic, Some("1.2"));
}

#[test]
fn a_family_without_any_version() {
    let none = Verdict::TooNew { limit: None };
    assert_eq!(verdict((2, 5), "x86_64", "libz.so.1", "ZLIB_1.2.0"), none);
    assert_eq!(verdict((2, 17), "x86_64", "libatomic.so.1", "LIBATOMIC_1.0"), none);
}

#[test]
fn versions_without_a_number() {
    for (glibc, file, version, verdict_of) in [
        ((2, 12), "libstdc++.so.6", "CXXABI_TM_1", too_new("CXXABI_1.3.3")),
        ((2, 17), "libstdc++.so.6", "CXXABI_TM_1", Verdict::Yes),
        ((2, 17), "libstdc++.so.6", "CXXABI_FLOAT128", too_new("CXXABI_1.3.7")),
        ((2, 24), "libstdc++.so.6", "CXXABI_FLOAT128", Verdict::Yes),
        ((2, 35), "libc.so.6", "GLIBC_ABI_DT_RELR", too_new("GLIBC_2.35")),
        ((2, 36), "libc.so.6", "GLIBC_ABI_DT_RELR", Verdict::Yes),
        ((2, 24), "libstdc++.so.6", "GLIBCXX_LDBL_3.4.21", Verdict::Yes),
        ((2, 31), "libstdc++.so.6", "GLIBCXX_IEEE128_3.4.29", too_new("GLIBCXX_3.4.28")),
        ((2, 17), "libstdc++.so.6", "CXXABI_ARM_1.3.3", Verdict::Yes),
        ((2, 99), "libc.so.6", "GLIBC_PRIVATE", Verdict::Unknown),
        ((2, 99), "libc.so.6", "GLIBC_ABI_NEW", Verdict::Unknown),
        ((2, 99), "libc.so.6", "ACME_1.0", Verdict::Unknown),
        ((2, 99), "libc.so.6", "plain", Verdict::Unknown),
    ] {
        assert_eq!(verdict(glibc, "x86_64", file, version), verdict_of, "{version}");
    }
}

#[test]
fn libraries() {
    for (glibc, library, there) in [
        ((2, 5), "libexpat.so.1", false),
        ((2, 12), "libexpat.so.1", true),
        ((2, 17), "libmvec.so.1", false),
        ((2, 24), "libmvec.so.1", true),
        ((2, 5), "libc.so.6", true),
        ((2, 5), "libGL.so.1", true),
        ((2, 39), "libgomp.so.1", false),
        ((2, 39), "libcrypt.so.1", false),
        ((2, 39), "libpython3.12.so.1.0", false),
    ] {
        assert_eq!(promised(glibc, "x86_64").has(library), there, "{library}");
    }
    assert_eq!(verdict((2, 39), "x86_64", "libgomp.so.1", "GOMP_1.0"), Verdict::Unknown);
    assert_eq!(promised((2, 5), "x86_64").libraries.len(), 22);
}

#[test]
fn the_loader_is_that_of_the_architecture() {
    assert_eq!(verdict((2, 17), "x86_64", "ld-linux-x86-64.so.2", "GLIBC_2.3"), Verdict::Yes);
    assert_eq!(verdict((2, 17), "aarch64", "ld-linux-x86-64.so.2", "GLIBC_2.17"), Verdict::Unknown);
    assert_eq!(promised((2, 17), "acme").loader, None);
}

#[test]
fn rows_ascend() {
    assert!(ROWS.windows(2).all(|rows| rows[0].0 <= rows[1].0));
    for glibc in ROWS.iter().map(|row| row.0) {
        let general = ROWS.iter().position(|row| row.0 == glibc && row.1.is_empty());
        assert_eq!(
            general,
            ROWS.iter().position(|row| row.0 == glibc),
            "{glibc:?}: the row for all comes first"
        );
    }
    for (_, _, versions) in ROWS {
        assert!(versions.iter().all(|version| *version == "-" || order(version, version).is_some()));
    }
}
