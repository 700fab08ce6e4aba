use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use torchfl_audit::{Closure, ClosureRequest, Resolution, Severity};
use torchfl_wheel::WheelName;

use crate::Outcome;
use crate::args;
use crate::commands::audit::{findings, number, scratch};
use crate::report::{Error, Failure};
use crate::screen::Screen;

/// The releases of glibc that uv's names of platforms end in, `x86_64-manylinux_2_28`. The first is the oldest that torch
/// itself runs on since 2.6: a wheel that bundles nothing asks for less, and yet the machine has to have that.
const GLIBC: [u32; 11] = [28, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40];
/// What uv ends with where there is no such set of distributions.
const NO_SOLUTION: i32 = 1;

pub(crate) fn run(args: args::Closure, screen: &Screen) -> Result<Outcome, Failure> {
    fs_err::metadata(&args.wheel)?;
    let spinner = screen.spinner("resolving");
    let resolution = resolve(&args);
    spinner.finish_and_clear();
    let local = args.find_links.iter().filter_map(|place| torchfl_audit::file_path(place));
    let closure = torchfl_audit::closure(&ClosureRequest {
        resolution: resolution?,
        wheels: local.chain(args.torch).collect(),
        installed: args.installed,
        known: torchfl_manifest::triton_owners().map(str::to_owned).collect(),
        scratch: scratch(),
        wheel: args.wheel,
    })?;
    screen.data(&closure, text)?;
    let bad = closure.findings.iter().any(|finding| finding.severity == Severity::Error);
    Ok(if bad { Outcome::Findings } else { Outcome::Done })
}

/// Variables by which uv would choose otherwise. Those that name indexes stay: they are where the site's packages are.
const MEDDLERS: [&str; 11] = [
    "UV_BUILD_CONSTRAINT",
    "UV_CONSTRAINT",
    "UV_EXCLUDE",
    "UV_EXCLUDE_NEWER",
    "UV_FORK_STRATEGY",
    "UV_INDEX_STRATEGY",
    "UV_NO_SOURCES",
    "UV_OVERRIDE",
    "UV_PRERELEASE",
    "UV_RESOLUTION",
    "UV_TORCH_BACKEND",
];

/// Asks uv. Its configuration is left out: the answer shall follow from this command line and the index.
fn resolve(args: &args::Closure) -> Result<Resolution, Failure> {
    let name: WheelName = args.wheel.file_name().unwrap_or_default().to_string_lossy().parse()?;
    let mut uv = Command::new(&args.uv);
    uv.args(["pip", "compile", "-", "--no-header", "--annotation-style", "split", "--no-config"]);
    uv.args(["--no-progress", "--color", "never", "--no-python-downloads"]);
    for name in MEDDLERS {
        uv.env_remove(name);
    }
    let mut option = |option: &str, value: Option<String>| {
        if let Some(value) = value {
            uv.arg(option).arg(value);
        }
    };
    option("--python-version", args.python.clone().or_else(|| python(&name.python)));
    option("--python-platform", args.platform.clone().or_else(|| platform(&name.platform)));
    option("--index-url", args.index_url.clone());
    args.extra_index_url.iter().for_each(|url| option("--extra-index-url", Some(url.clone())));
    args.find_links.iter().for_each(|place| option("--find-links", Some(place.clone())));
    for (option, files) in [("--constraints", &args.constraint), ("--overrides", &args.r#override)] {
        for file in files {
            uv.arg(option).arg(file);
        }
    }
    if args.no_index {
        uv.arg("--no-index");
    }
    let mut wanted = vec![format!("torch_fl @ {}", url(&std::path::absolute(&args.wheel)?))];
    if let Some(torch) = &args.torch {
        wanted.push(format!("torch @ {}", url(&std::path::absolute(torch)?)));
    }
    wanted.extend(args.with.iter().cloned());
    ask(uv, &args.uv, &wanted.join("\n"))
}

fn ask(mut uv: Command, program: &Path, wanted: &str) -> Result<Resolution, Failure> {
    uv.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = uv.spawn();
    let mut child = start.map_err(|source| Error::NoResolver { uv: program.to_owned(), source })?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends before it has read everything says why on stderr.
        let _ = stdin.write_all(wanted.as_bytes());
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        let answer = String::from_utf8_lossy(&output.stdout);
        return Ok(Resolution::Found(torchfl_audit::resolved(&answer)?));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // Warnings come first.
    let error = said.split_once("error:").map_or(&*said, |(_, error)| error);
    let message = error.split_whitespace().collect::<Vec<_>>().join(" ");
    if output.status.code() == Some(NO_SOLUTION) && message.contains("No solution found") {
        return Ok(Resolution::Refused(message));
    }
    let message = if message.is_empty() { output.status.to_string() } else { message };
    Err(Error::Resolver { message }.into())
}

/// `3.12` of `cp312`; none of `py3`.
fn python(tag: &str) -> Option<String> {
    Some(format!("3.{}", tag.strip_prefix("cp3")?))
}

/// uv's name for the platform of a wheel: the same or the next newer glibc that it knows, else its newest.
fn platform(tag: &str) -> Option<String> {
    let tag = tag.rsplit('.').next()?;
    if let Some((minor, arch)) = tag.strip_prefix("manylinux_2_").and_then(|rest| rest.split_once('_')) {
        let minor: u32 = minor.parse().ok()?;
        let known = GLIBC.iter().find(|known| **known >= minor).or(GLIBC.last())?;
        return ["x86_64", "aarch64"].contains(&arch).then(|| format!("{arch}-manylinux_2_{known}"));
    }
    let arch = tag.strip_prefix("linux_")?;
    ["x86_64", "aarch64"].contains(&arch).then(|| format!("{arch}-unknown-linux-gnu"))
}

/// A file's URL: all but letters, digits and `-._~/` percent-encoded (RFC 3986).
fn url(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let mut url = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(byte) {
            url.push(char::from(*byte));
        } else {
            let _ = write!(url, "%{byte:02X}");
        }
    }
    url
}

/// A judged closure for people.
fn text(closure: &Closure) -> String {
    let errors = closure.findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let verdict = match (errors, &closure.owners[..]) {
        (0, []) if closure.supplier.as_deref() == Some("none") => {
            "nobody installs triton/, as it should be".to_owned()
        }
        (0, []) => "nobody installs triton/".to_owned(),
        (0, [owner]) => format!("triton/ is of {} {} alone", owner.name, owner.version),
        (0, _) => "triton/ has more than one owner, by leave".to_owned(),
        (errors, _) => number(errors, "error"),
    };
    let mut text = format!("{}: {verdict}\n", closure.wheel);
    for owner in closure.owners.iter().filter(|_| errors == 0) {
        let _ = writeln!(text, "  {}", owner.chains.join("; "));
    }
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        findings(&closure.findings, severity, &mut text);
    }
    if !closure.resolved.is_empty() {
        let all = closure.resolved.iter().map(|one| format!("{} {}", one.name, one.version));
        let _ = writeln!(text, "\nof {}", all.collect::<Vec<_>>().join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_paths_as_uv_takes_them() {
        assert_eq!(python("cp312").as_deref(), Some("3.12"));
        assert_eq!(python("py3"), None);
        let platforms =
            ["manylinux_2_28_x86_64", "manylinux_2_17_aarch64.manylinux_2_29_aarch64", "linux_x86_64"];
        let uvs = platforms.map(|tag| platform(tag).unwrap());
        assert_eq!(uvs, ["x86_64-manylinux_2_28", "aarch64-manylinux_2_31", "x86_64-unknown-linux-gnu"]);
        assert_eq!(platform("manylinux_2_17_x86_64").as_deref(), Some("x86_64-manylinux_2_28"));
        assert_eq!(platform("manylinux_2_99_aarch64").as_deref(), Some("aarch64-manylinux_2_40"));
        assert_eq!([platform("any"), platform("manylinux_2_36_riscv64")], [None, None]);
        assert_eq!(url(Path::new("/a b/x+1.whl")), "file:///a%20b/x%2B1.whl");
    }
}
